//! Where values are on an axis, and which of them are written beside it.

/// An axis from one value to another, of so many pixels.
#[derive(Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    pixels: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// From 0 to a round value above the largest.
    pub(super) fn linear(largest: f64, pixels: f64) -> Self {
        let step = round_step(largest.max(f64::MIN_POSITIVE) / 4.0);
        let to = (largest / step).ceil().max(1.0) * step;
        Axis { from: 0.0, to, pixels, is_logarithmic: false }
    }

    /// From the smallest to the largest value; both are above 0.
    pub(super) fn logarithmic(smallest: f64, largest: f64, pixels: f64) -> Self {
        let to = if largest > smallest { largest } else { smallest * 10.0 };
        Axis { from: smallest, to, pixels, is_logarithmic: true }
    }

    /// How many pixels from its beginning.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        part * self.pixels
    }

    /// Values to be written beside it.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if !self.is_logarithmic {
            let step = round_step(self.to / 4.0);
            let steps = (self.to / step).round() as u32;
            return (0..=steps).map(|nth| f64::from(nth) * step).collect();
        }
        let decades = (self.to / self.from).log10();
        let factors: &[f64] = if decades <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        // The ends may be a rounding apart from what they are.
        all.filter(|&tick| tick >= self.from * 0.999 && tick <= self.to * 1.001).collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn round_step(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= value * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_value_and_has_it_written() {
        let axis = Axis::linear(87.0, 100.0);
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0]);
        assert_eq!((axis.place(0.0), axis.place(50.0), axis.place(100.0)), (0.0, 50.0, 100.0));
        assert_eq!(Axis::linear(400.0, 1.0).ticks(), [0.0, 100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn a_logarithmic_axis_has_its_decades_equally_far_apart() {
        let axis = Axis::logarithmic(10.0, 100_000.0, 400.0);
        assert_eq!(axis.ticks().len(), 5);
        assert!((axis.place(1_000.0) - 200.0).abs() < 1e-9);
        assert_eq!(Axis::logarithmic(1.0, 8.0, 1.0).ticks(), [1.0, 2.0, 5.0]);
    }
}
