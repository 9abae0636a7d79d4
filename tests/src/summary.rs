//! The summary that a host writes when it has stopped, as numbers.
//!
//! Purpose: the promise that every accepted callback ends in one way can be checked from outside, since the host
//! says for each driver how many it accepted and what became of them.

/// What one driver's line of the summary says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverSummary {
    /// The driver.
    pub name: String,
    /// Callbacks that its dispatchers accepted.
    pub accepted: u64,
    /// Those that ran.
    pub ran: u64,
    /// Those that were told `Canceled`.
    pub canceled: u64,
    /// Those that a successful cancel took back.
    pub taken_back: u64,
    /// Those that are still there, found by counting them.
    pub pending: u64,
    /// Posts that were refused; they are not among the accepted.
    pub refused: u64,
}

/// The lines of all drivers.
#[derive(Clone, Debug)]
pub struct Summary(Vec<DriverSummary>);

impl Summary {
    /// Finds the summary in what the host wrote on standard error.
    ///
    /// # Panics
    /// When there is none, or a line of it lacks a number.
    #[track_caller]
    pub fn parse(stderr: &str) -> Self {
        let mut drivers: Vec<DriverSummary> = stderr
            .lines()
            .filter(|line| line.contains("accepted="))
            .map(|line| DriverSummary {
                name: field(line, "driver").trim_matches('"').to_owned(),
                accepted: number(line, "accepted"),
                ran: number(line, "ran"),
                canceled: number(line, "canceled"),
                taken_back: number(line, "taken_back"),
                pending: number(line, "pending"),
                refused: number(line, "refused"),
            })
            .collect();
        assert!(!drivers.is_empty(), "no summary in:\n{stderr}");
        drivers.sort_by(|a, b| a.name.cmp(&b.name));
        Self(drivers)
    }

    /// The drivers, by name.
    pub fn drivers(&self) -> impl Iterator<Item = &DriverSummary> {
        self.0.iter()
    }

    /// The names of the drivers, in order.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|driver| driver.name.as_str()).collect()
    }
}

/// The value of `key=value` in a line.
#[track_caller]
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {key} in the line: {line}"))
}

#[track_caller]
fn number(line: &str, key: &str) -> u64 {
    field(line, key).parse().unwrap_or_else(|_| panic!("{key} is no number in the line: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_each_driver_are_found_among_other_lines() {
        let summary = Summary::parse(
            "INFO something else\n\
             INFO stopped driver=ramdisk accepted=7 ran=4 canceled=2 taken_back=1 pending=0 refused=3\n\
             INFO stopped driver=\"nbd\" accepted=1 ran=1 canceled=0 taken_back=0 pending=0 refused=0\n",
        );
        assert_eq!(summary.names(), ["nbd", "ramdisk"]);
        let ramdisk = summary.drivers().last().expect("two drivers");
        assert_eq!((ramdisk.accepted, ramdisk.ran, ramdisk.canceled), (7, 4, 2));
        assert_eq!((ramdisk.taken_back, ramdisk.pending, ramdisk.refused), (1, 0, 3));
    }
}
