//! How much data all connections together may hold: [`Budget`], and each connection's [`Account`] with it.
//!
//! A connection holds data in two directions: what a client is sending (pieces of writes that the device has not
//! finished) and what it is to receive (pieces of reads that have not left through the socket). In each direction the
//! first [`RESERVE`] bytes are the connection's own; what is over that is taken from the common pool, up to [`SHARE`].
//! So a connection always gets on by its own doing, whatever the others hold: it never waits for the pool, only for
//! room that its own requests give back. That is why nobody has to be woken when the pool fills up again.
//!
//! The bound is `connections × 2 × RESERVE + pool`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a connection may hold in a direction without asking. A multiple of every block size.
pub(crate) const RESERVE: u32 = 64 << 10;

/// What a connection may hold in a direction at most.
pub(crate) const SHARE: u32 = 4 << 20;

/// The common pool.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes not taken. Only a figure: what it guards is memory use, so no other data hangs on its order.
    left: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes) }
    }

    fn take(&self, bytes: u32) -> bool {
        let bytes = bytes as usize;
        bytes == 0
            || self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give(&self, bytes: u32) {
        self.left.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// What one connection holds in one direction; gives the pool's part back when dropped.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: u32,
}

impl Account {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, held: 0 }
    }

    /// Takes `bytes` or nothing.
    pub(crate) fn take_exactly(&mut self, bytes: u32) -> bool {
        let Some(held) = self.held.checked_add(bytes).filter(|held| *held <= SHARE) else { return false };
        if !self.budget.take(over_reserve(held) - over_reserve(self.held)) {
            return false;
        }
        self.held = held;
        true
    }

    /// Takes `bytes`, or what is left of the reserve when the pool is out; 0 means to wait until something that this
    /// connection holds was given back.
    pub(crate) fn take_up_to(&mut self, bytes: u32) -> u32 {
        if self.take_exactly(bytes) {
            return bytes;
        }
        let rest = bytes.min(RESERVE.saturating_sub(self.held));
        self.held += rest;
        rest
    }

    /// Gives back what was taken before.
    pub(crate) fn give(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.held, "{bytes} bytes given back, {} held", self.held);
        let held = self.held.saturating_sub(bytes);
        self.budget.give(over_reserve(self.held) - over_reserve(held));
        self.held = held;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.give(self.held);
    }
}

fn over_reserve(held: u32) -> u32 {
    held.saturating_sub(RESERVE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn with_an_empty_pool_each_account_still_has_its_reserve() {
        let budget = Arc::new(Budget::new(0));
        let (mut one, mut other) = (Account::new(budget.clone()), Account::new(budget.clone()));
        assert_eq!(one.take_up_to(1 << 20), RESERVE);
        assert_eq!(one.take_up_to(512), 0);
        assert_eq!(other.take_up_to(512), 512);
        one.give(RESERVE);
        assert!(one.take_exactly(RESERVE));
        assert!(!one.take_exactly(1));
    }

    #[test]
    fn no_account_takes_more_than_its_share() {
        let budget = Arc::new(Budget::new(usize::MAX / 2));
        let mut account = Account::new(budget);
        assert!(account.take_exactly(SHARE));
        assert_eq!(account.take_up_to(512), 0);
    }

    #[test]
    fn a_dropped_account_gives_everything_back() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut account = Account::new(budget.clone());
        assert!(account.take_exactly(RESERVE + 1000));
        assert_eq!(budget.left(), (1 << 20) - 1000);
        drop(account);
        assert_eq!(budget.left(), 1 << 20);
    }

    proptest! {
        #[test]
        fn the_books_balance_after_any_series(steps in prop::collection::vec((0..3usize, 0..200_000u32), 0..60)) {
            const POOL: usize = 500_000;
            let budget = Arc::new(Budget::new(POOL));
            let mut accounts: Vec<_> = (0..3).map(|_| (Account::new(budget.clone()), Vec::new())).collect();
            for (number, (who, bytes)) in steps.into_iter().enumerate() {
                let (account, taken) = &mut accounts[who];
                if number % 3 == 2 {
                    if let Some(bytes) = taken.pop() {
                        account.give(bytes);
                    }
                } else {
                    taken.push(account.take_up_to(bytes));
                }
                let pooled: u32 = accounts.iter().map(|(account, _)| over_reserve(account.held)).sum();
                prop_assert_eq!(budget.left() + pooled as usize, POOL);
                for (account, taken) in &accounts {
                    prop_assert_eq!(account.held, taken.iter().sum::<u32>());
                }
            }
            drop(accounts);
            prop_assert_eq!(budget.left(), POOL);
        }
    }
}
