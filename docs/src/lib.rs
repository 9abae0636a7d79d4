//! The Fuchsine book, whose code blocks run as tests.
