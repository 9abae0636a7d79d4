//! What goes wrong with a driver under test, in sentences.

/// Why a driver under test did not start or end as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// What the test asks for cannot be: a wrong configuration, a wrong name.
    #[error("the harness cannot be set up: {0}")]
    Setup(String),
    /// The driver did not start.
    #[error("driver `{driver}` did not start: {reason}")]
    NotStarted {
        /// Its name.
        driver: String,
        /// Why, in a sentence.
        reason: String,
    },
    /// The driver does not stop.
    #[error("driver `{driver}` does not stop; {report}")]
    NotStopped {
        /// Its name.
        driver: String,
        /// Who waits for what, and what every dispatcher holds.
        report: String,
    },
    /// The driver failed: it panicked, gave up, or could not end well.
    #[error("driver `{driver}` {reason}")]
    Failed {
        /// Its name.
        driver: String,
        /// How, in a sentence.
        reason: String,
    },
    /// After the end some callback of the driver is not accounted for.
    #[error("driver `{driver}` is gone, but not all of its callbacks are accounted for: {counters}")]
    Unaccounted {
        /// Its name.
        driver: String,
        /// What was counted.
        counters: String,
    },
}
