//! The Fuchsine driver host: registry, node tree, life cycle, manifests.
