//! Which rules and cases there are.

/// Rules or cases of one kind: an identifier is the prefix and a number.
#[derive(Debug)]
pub struct Group {
    /// What stands before the number.
    pub prefix: &'static str,
    /// What they are about.
    pub title: &'static str,
    /// From and to, both included.
    pub ranges: &'static [(u32, u32)],
}

/// One by one, for groups with holes.
macro_rules! each {
    ($($number:literal)*) => { &[$(($number, $number)),*] };
}

/// All groups, in the order of the page. Numbers of cases have holes where several cases of the original are one.
pub const GROUPS: &[Group] = &[
    Group { prefix: "R", title: "Structure of the process", ranges: &[(1, 6)] },
    Group { prefix: "R", title: "Call stack, current dispatcher", ranges: &[(7, 16)] },
    Group { prefix: "R", title: "Creation", ranges: &[(17, 30)] },
    Group { prefix: "R", title: "Scheduler roles", ranges: &[(31, 41)] },
    Group { prefix: "R", title: "Threads, limits, stalls", ranges: &[(42, 56)] },
    Group { prefix: "R", title: "Inline or deferred", ranges: &[(57, 64)] },
    Group { prefix: "R", title: "Queue, batches, fairness", ranges: &[(65, 76)] },
    Group { prefix: "R", title: "Tasks", ranges: &[(77, 85)] },
    Group { prefix: "R", title: "Waits", ranges: &[(86, 91)] },
    Group { prefix: "R", title: "Interrupts", ranges: &[(92, 99)] },
    Group { prefix: "R", title: "Other operations", ranges: &[(100, 103)] },
    Group { prefix: "R", title: "Sequence ids", ranges: &[(104, 106)] },
    Group { prefix: "R", title: "Sealing", ranges: &[(107, 109)] },
    Group { prefix: "R", title: "Idle and queued", ranges: &[(110, 113)] },
    Group { prefix: "R", title: "Dispatchers without threads, for tests", ranges: &[(114, 120)] },
    Group { prefix: "R", title: "Suspend, resume, always-on, wake vectors", ranges: &[(121, 138)] },
    Group { prefix: "R", title: "Shutdown of a dispatcher", ranges: &[(139, 154)] },
    Group { prefix: "R", title: "Shutdown of a driver", ranges: &[(155, 164)] },
    Group { prefix: "R", title: "Channels, as far as dispatchers need them", ranges: &[(165, 169)] },
    Group { prefix: "R", title: "Diagnostics", ranges: &[(170, 178)] },
    Group { prefix: "W", title: "Weaknesses of the original", ranges: &[(1, 18)] },
    Group { prefix: "CH-R", title: "Channels, arenas, handles, tokens", ranges: &[(1, 99)] },
    Group { prefix: "D", title: "Defects of the original's transport", ranges: &[(1, 13)] },
    Group {
        prefix: "DT-",
        title: "Cases: dispatchers",
        ranges: each!(1 2 4 5 7 8 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 47 49 50 52 53
                      55 56 58 59 61 62 64 65 67 68 70 71 73 74 76 77 79 80 82 83 85 86 88 89 91 92 94 95 97 98 100 101),
    },
    Group { prefix: "TC-", title: "Cases: thread context", ranges: &[(1, 3)] },
    Group { prefix: "SR-", title: "Cases: scheduler roles", ranges: &[(1, 8)] },
    Group { prefix: "DD-", title: "Cases: dumps", ranges: &[(1, 10)] },
    Group { prefix: "DX-", title: "Cases: death and the end of the process", ranges: &[(1, 2)] },
    Group {
        prefix: "CT-",
        title: "Cases: channels",
        ranges: each!(1 2 4 5 7 8 10 11 13 14 16 17 19 20 22 23 25 26 28 29 31 32 34 35 37 38 40 41 43 44 46 47 49 50 52 53
                      55 56 58 59 61 62 63),
    },
    Group { prefix: "CX-", title: "Cases: death by a channel", ranges: &[(1, 1)] },
    Group { prefix: "AT-", title: "Cases: arenas", ranges: each!(1 3 4 6 7 9) },
    Group { prefix: "HT-", title: "Cases: handles", ranges: each!(1 3 4 6) },
    Group { prefix: "TT-", title: "Cases: tokens", ranges: each!(1 3 4 6 7 9 10 12 13 17 18) },
    Group { prefix: "RC-", title: "Cases in Rust: channels", ranges: each!(1 2 4 5) },
    Group { prefix: "RF-", title: "Cases in Rust: the read as a future", ranges: each!(1 2 4 5) },
    Group { prefix: "RM-", title: "Cases in Rust: messages", ranges: each!(3 4) },
    Group { prefix: "RA-", title: "Cases in Rust: arenas", ranges: each!(1 2 3 4 6 7 10 11 12 14 15) },
    Group { prefix: "RX-", title: "Cases in Rust: dispatchers", ranges: each!(1 2 4 5 6 8) },
    Group { prefix: "RT-", title: "Cases in Rust: timers", ranges: each!(1 2 5) },
    Group { prefix: "RS-", title: "Cases in Rust: signals", ranges: &[(1, 3)] },
    Group { prefix: "RK-", title: "Cases in Rust: tasks", ranges: &[(1, 4)] },
    Group { prefix: "RW-", title: "Cases in Rust: protocols over channels", ranges: &[(1, 3)] },
    Group { prefix: "U-", title: "What the original does not test", ranges: &[(1, 26)] },
];

impl Group {
    /// Its identifiers, in order.
    pub fn identifiers(&self) -> impl Iterator<Item = String> {
        let numbers = self.ranges.iter().flat_map(|&(first, last)| first..=last);
        numbers.map(|number| format!("{}{number}", self.prefix))
    }
}

/// Every identifier there is, in the order of the page.
pub fn all() -> Vec<String> {
    GROUPS.iter().flat_map(Group::identifiers).collect()
}
