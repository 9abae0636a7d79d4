//! What the machine is, and what else it does meanwhile. Linux tells; elsewhere nothing is known, and nothing fails.

use std::fs;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The kernel counts processor time in hundredths of a second for everybody who asks.
const TICK: Duration = Duration::from_millis(10);

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Processor, number of processors, kernel.
pub(crate) fn name() -> String {
    let processors = available_parallelism().map_or(1, usize::from);
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let kernel = read("/proc/sys/kernel/osrelease").map(|release| format!(", kernel {}", release.trim()));
    format!("{}, {processors} processors{}", model.unwrap_or("unknown processor"), kernel.unwrap_or_default())
}

/// The load averages, as they are.
pub(crate) fn load() -> String {
    let load = read("/proc/loadavg").unwrap_or_default();
    let averages: Vec<_> = load.split_whitespace().take(3).collect();
    if averages.is_empty() { "unknown".to_owned() } else { averages.join(" ") }
}

/// Resident bytes of this process; 0 where that is not known.
pub(crate) fn resident_bytes() -> u64 {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// Ticks that the processors were busy: user, nice, system, interrupts, and what the host took.
fn busy(stat: &str) -> Option<u64> {
    let first = stat.lines().next()?;
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
    Some([0, 1, 2, 5, 6, 7].iter().filter_map(|&nth| ticks.get(nth)).sum())
}

/// Ticks of this process and of its children that have ended.
fn own(stat: &str) -> Option<u64> {
    // The name is in parentheses and may hold anything; what follows it is numbered from the third field.
    let fields: Vec<&str> = stat.rsplit(") ").next()?.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// How many processors others use, from its start on.
#[derive(Debug)]
pub(crate) struct Others {
    start: Instant,
    busy: Option<u64>,
    own: Option<u64>,
}

impl Others {
    pub(crate) fn watch() -> Self {
        let (busy, own) = Self::ticks();
        Others { start: Instant::now(), busy, own }
    }

    fn ticks() -> (Option<u64>, Option<u64>) {
        let parsed = |path, parse: fn(&str) -> Option<u64>| read(path).and_then(|text| parse(&text));
        (parsed("/proc/stat", busy), parsed("/proc/self/stat", own))
    }

    /// Processors that others kept busy on average; `None` where that is not known.
    pub(crate) fn processors(&self) -> Option<f64> {
        let (busy, own) = Self::ticks();
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let others = since(busy, self.busy)?.saturating_sub(since(own, self.own)?);
        let ticks = self.start.elapsed().as_secs_f64() / TICK.as_secs_f64();
        Some(others as f64 / ticks.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_understood() {
        assert_eq!(busy("cpu  1 2 4 100 100 8 16 32 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n"), Some(63));
        assert_eq!(own("77 (a) b) S 1 1 1 0 -1 4 0 0 0 0 1 2 4 8 20 0 1"), Some(15));
        assert_eq!(own("nothing"), None);
    }

    #[test]
    fn a_machine_has_a_name_and_a_process_has_memory() {
        assert!(name().contains("processors"));
        assert!(cfg!(not(target_os = "linux")) || resident_bytes() > 0);
    }
}
