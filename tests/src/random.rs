//! A seeded generator of bytes and choices.
//!
//! Purpose: hostile input should differ from run to run, and a failing run must be repeatable. The seed comes from
//! `FUCHSINE_SEED` or else from the clock, and is printed, so it stands in the output of a failed test.

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// A small generator (xorshift64*): good enough to pick bytes and lengths, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from `FUCHSINE_SEED`, or from the clock when that is not set. Prints the seed.
    ///
    /// # Panics
    /// When `FUCHSINE_SEED` is set to something that is not a number.
    pub fn from_environment() -> Self {
        let seed = match env::var("FUCHSINE_SEED") {
            Ok(text) => text.parse().expect("FUCHSINE_SEED is a decimal number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |age| age.as_nanos() as u64),
        };
        println!("seed: run again with FUCHSINE_SEED={seed}");
        Self::new(seed)
    }

    /// A generator that repeats the same sequence for the same seed.
    pub fn new(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }

    /// `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(Random::new(7).bytes(33), Random::new(7).bytes(33));
        assert_ne!(Random::new(7).bytes(33), Random::new(8).bytes(33));
        assert_ne!(Random::new(0).bytes(33), vec![0; 33]);
    }
}
