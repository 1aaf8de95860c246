//! The mass above the window, the windows that give no bound, and the exponentials.

use super::{Convolution, FftPlanner, LatticeDistribution, TiltedWindow, exponentials};

struct Atoms {
    step: f64,
    first: i64,
    masses: Vec<f64>,
    infinity: f64,
}

impl LatticeDistribution for Atoms {
    fn step(&self) -> f64 {
        self.step
    }
    fn first(&self) -> i64 {
        self.first
    }
    fn masses(&self) -> &[f64] {
        &self.masses
    }
    fn infinity(&self) -> f64 {
        self.infinity
    }
}

/// Mass above the window counts as infinite by the Chernoff bound at the given tilt, no more and no less.
#[test]
fn mass_above_the_window_is_charged() {
    let atoms = || Atoms { step: 0.5, first: 0, masses: vec![0.6, 0.3, 0.1], infinity: 0.0 };
    for (count, length, tilt_above) in [(40, 32, 0.4), (40, 64, 0.4), (100, 128, 0.2), (100, 128, 0.6)] {
        let parts = [(atoms(), count)];
        let window = TiltedWindow { tilt: 0.1, tilt_above, low: 0.0 };
        let composed = Convolution::new(&parts, length, &window, &mut FftPlanner::new()).expect("in range");
        let moment = 0.6 + 0.3 * libm::exp(0.5 * tilt_above) + 0.1 * libm::exp(tilt_above);
        let above = libm::exp(count as f64 * libm::log(moment) - tilt_above * length as f64 * 0.5);
        assert!(composed.outside >= above && composed.outside <= above * (1.0 + 1e-8), "{} {above}", composed.outside);
    }
}

/// Choices that would make a bound wrong, or that leave no accurate number, give none.
#[test]
fn unusable_windows_give_no_bound() {
    let compose = |masses: &[f64], length: usize, tilt: f64, tilt_above: f64| {
        let parts = [(Atoms { step: 0.5, first: 1, masses: masses.to_vec(), infinity: 0.0 }, 3)];
        let window = TiltedWindow { tilt, tilt_above, low: 0.0 };
        Convolution::new(&parts, length, &window, &mut FftPlanner::new()).is_some()
    };
    assert!(compose(&[0.5, 0.5], 64, 1.0, 1.0));
    assert!(!compose(&[0.5, 0.5], 64, 1.0, 0.0), "a Chernoff bound without a tilt");
    assert!(!compose(&[0.5, 0.5], 64, 1.0, -1.0), "a Chernoff bound of the lower tail");
    assert!(!compose(&[0.5, 0.5], 96, 1.0, 1.0), "a length that is no power of two");
    assert!(!compose(&[0.5, 0.5], 64, 1600.0, 1.0), "exponents beyond 1500");
    assert!(!compose(&[0.5, 0.5], 64, 1.0, 1600.0), "exponents beyond 1500 above the window");
    assert!(!compose(&[1e-260, 1e-260], 64, 0.0, 1.0), "masses that vanish");
}

/// Masses are scaled by the factor at the end that the tilt favours, so that a strong tilt overflows nowhere.
#[test]
fn strong_tilts_do_not_overflow() {
    for (first, tilt) in [(900, 10.0), (-1100, -10.0)] {
        let parts = [(Atoms { step: 0.1, first, masses: vec![0.005; 200], infinity: 0.0 }, 1)];
        let window = TiltedWindow { tilt, tilt_above: 0.1, low: 0.1 * first as f64 };
        let composed = Convolution::new(&parts, 1024, &window, &mut FftPlanner::new()).expect("in range");
        let total: f64 = composed.tilted.iter().sum();
        assert!((0.99..1.01).contains(&total) && composed.log_scale.is_finite(), "{first}: {total}");
    }
}

#[test]
fn exponentials_are_accurate() {
    for (first, stride, rate, offset) in
        [(0, 1, 0.01, 0.0), (-500, 1, 0.019, 2.0), (700, -1, -0.015, -3.0), (5, -1, 0.4, 1.0), (-90, 1, -0.02, 0.5)]
    {
        for (passed, value) in exponentials(first, stride, rate, offset).take(300).enumerate() {
            let exact = libm::exp(offset + rate * (first + stride * passed as i64) as f64);
            assert!((value / exact - 1.0).abs() < 2e-13, "{first} {stride} {rate} {passed}: {value} {exact}");
        }
    }
}
