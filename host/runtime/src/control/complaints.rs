//! Lines of the log about clients that do what they should not, so many a minute: whoever connects again and again fills no
//! disk. What was left out is counted, and told with the next line, or at the end.

use std::time::{Duration, Instant};

/// So many lines in one window.
const LINES: u32 = 5;
const WINDOW: Duration = Duration::from_secs(60);

/// The lines of one server.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// When the window began, and how many lines were told in it.
    window: Option<(Instant, u32)>,
    left_out: u64,
}

impl Complaints {
    /// Says it by `tell`, unless enough was said lately.
    pub(super) fn note(&mut self, tell: impl FnOnce()) {
        if let Some(left_out) = self.turn(Instant::now()) {
            tell_rest(left_out);
            tell();
        }
    }

    /// Whether one more line is told; with how many were left out before it.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        let told = match self.window {
            Some((since, told)) if now.saturating_duration_since(since) < WINDOW => told,
            _ => {
                self.window = Some((now, 0));
                0
            }
        };
        if told >= LINES {
            self.left_out += 1;
            return None;
        }
        self.window = self.window.map(|(since, told)| (since, told + 1));
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        tell_rest(self.left_out);
    }
}

fn tell_rest(count: u64) {
    if count > 0 {
        tracing::warn!(count, "lines about clients of the control socket were left out");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_minute_are_told_and_the_rest_is_counted() {
        let mut complaints = Complaints::default();
        let begin = Instant::now();
        for n in 0..LINES {
            assert_eq!(complaints.turn(begin + Duration::from_secs(u64::from(n))), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(complaints.turn(begin + WINDOW - Duration::from_nanos(1)), None);
        }
        assert_eq!(complaints.turn(begin + WINDOW), Some(1000), "the next window tells how many there were");
        assert_eq!(complaints.turn(begin + WINDOW), Some(0));
        // One line in a while is told each time.
        for n in 2..100 {
            assert_eq!(complaints.turn(begin + WINDOW * n), Some(0));
        }
        let told = std::cell::Cell::new(0);
        (0..100).for_each(|_| Complaints::note(&mut complaints, || told.set(told.get() + 1)));
        assert!(told.get() <= LINES, "{} lines", told.get());
    }
}
