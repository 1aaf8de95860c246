//! Privacy budgets as integers.
//!
//! An [`Epsilon`] counts units of 10⁻¹², a [`Delta`] units of 10⁻¹⁸. Both are parsed from decimal text. The caller
//! chooses whether the text is a cost (rounded up) or a ceiling (rounded down), so no conversion ever favours the
//! spender. NaN, infinity and negative values have no representation. This module must never contain a floating-point
//! number.

use std::fmt;

pub use sage_numerics::NumberError;
use sage_numerics::{Round, decimal, parse_units};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, places $places:expr, below_or_at $limit:expr, dearer $dearer:ident $cheaper:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest representable value.
            pub const LIMIT: Self = Self($limit);
            /// Decimal places of one unit: a unit is 10^-`PLACES`.
            pub const PLACES: u32 = $places;

            /// The value of `units` units; `None` above [`Self::LIMIT`].
            pub const fn from_units(units: u64) -> Option<Self> {
                if units <= $limit { Some(Self(units)) } else { None }
            }

            /// The number of units.
            pub const fn units(self) -> u64 {
                self.0
            }

            /// Parses a cost, rounded towards the more expensive value.
            ///
            /// # Errors
            /// When the text is not a decimal, is negative, or is above the limit.
            pub fn cost(text: &str) -> Result<Self, NumberError> {
                Self::from_units(parse_units(text, $places, Round::$dearer)?).ok_or(NumberError::TooLarge)
            }

            /// Parses a ceiling, rounded towards the less expensive value.
            ///
            /// # Errors
            /// As [`Self::cost`].
            pub fn ceiling(text: &str) -> Result<Self, NumberError> {
                Self::from_units(parse_units(text, $places, Round::$cheaper)?).ok_or(NumberError::TooLarge)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&decimal(u128::from(self.0), $places))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

quantity! {
    /// A privacy loss ε, or a Rényi divergence, in units of 10⁻¹²; at most 10⁶.
    Epsilon, places 12, below_or_at 1_000_000_000_000_000_000, dearer Up Down
}

quantity! {
    /// A probability δ below one, in units of 10⁻¹⁸.
    Delta, places 18, below_or_at 999_999_999_999_999_999, dearer Up Down
}

quantity! {
    /// A noise multiplier σ (standard deviation over sensitivity) in units of 10⁻⁹; at most 10⁹. A smaller σ costs more.
    Sigma, places 9, below_or_at 1_000_000_000_000_000_000, dearer Down Up
}

quantity! {
    /// A probability of being sampled in units of 10⁻¹², from zero to one.
    Rate, places 12, below_or_at 1_000_000_000_000, dearer Up Down
}

impl Rate {
    /// The rate in units of 2^-64, rounded down.
    pub(crate) fn in_words(self) -> u128 {
        (u128::from(self.0) << 64) / u128::from(Self::LIMIT.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sage_numerics::TEXT_LIMIT;

    /// One row: text, places, units rounded down, units rounded up.
    #[test]
    fn decimals_become_units_rounded_as_requested() {
        for (text, places, down, up) in [
            ("0", 12, Ok(0), Ok(0)),
            ("-0.0", 12, Ok(0), Ok(0)),
            ("0.05", 12, Ok(50_000_000_000), Ok(50_000_000_000)),
            ("1e-6", 18, Ok(1_000_000_000_000), Ok(1_000_000_000_000)),
            (".5", 1, Ok(5), Ok(5)),
            ("5.", 0, Ok(5), Ok(5)),
            ("0.15", 1, Ok(1), Ok(2)),
            ("1e-400", 12, Ok(0), Ok(1)),
            ("1E+2", 2, Ok(10_000), Ok(10_000)),
            ("12345e-3", 0, Ok(12), Ok(13)),
            ("0e99999999999999999999", 12, Ok(0), Ok(0)),
            ("1e99999999999999999999", 12, Err(NumberError::TooLarge), Err(NumberError::TooLarge)),
            ("1e-99999999999999999999", 12, Ok(0), Ok(1)),
            ("18446744073709551615", 0, Ok(u64::MAX), Ok(u64::MAX)),
            ("18446744073709551615.1", 0, Ok(u64::MAX), Err(NumberError::TooLarge)),
            ("18446744073709551616", 0, Err(NumberError::TooLarge), Err(NumberError::TooLarge)),
            ("-1", 12, Err(NumberError::Negative), Err(NumberError::Negative)),
            ("-1e-400", 12, Err(NumberError::Negative), Err(NumberError::Negative)),
            ("", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            (".", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("NaN", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("inf", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("1e", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("1e+-2", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("--1", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("1.2.3", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("0x10", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
            ("١", 12, Err(NumberError::NotADecimal), Err(NumberError::NotADecimal)),
        ] {
            assert_eq!(parse_units(text, places, Round::Down), down, "{text:?} down");
            assert_eq!(parse_units(text, places, Round::Up), up, "{text:?} up");
        }
        let long = "1".repeat(TEXT_LIMIT + 1);
        assert_eq!(parse_units(&long, 12, Round::Up), Err(NumberError::TooLong));
    }

    /// Compares every decimal of up to three digits, with small exponents, with integer arithmetic.
    #[test]
    fn small_decimals_are_exact() {
        for digits in 0..1000u128 {
            for point in 0..=3usize {
                let text = format!("{digits:03}");
                let mantissa = format!("{}.{}", &text[..3 - point], &text[3 - point..]);
                for exponent in -7i32..=7 {
                    for places in 0..=6u32 {
                        // digits · 10^(exponent − point + places), as a fraction.
                        let power = exponent - point as i32 + places as i32;
                        let (over, under) =
                            (10u128.pow(power.max(0) as u32) * digits, 10u128.pow((-power).max(0) as u32));
                        let text = format!("{mantissa}e{exponent}");
                        let down = parse_units(&text, places, Round::Down).map(u128::from);
                        let up = parse_units(&text, places, Round::Up).map(u128::from);
                        assert_eq!((down, up), (Ok(over / under), Ok(over.div_ceil(under))), "{text} {places}");
                    }
                }
            }
        }
    }

    /// A rate in units of 2^-64 is exactly the floor.
    #[test]
    fn rates_are_rounded_down() {
        let mut state = 9u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let rate = Rate::from_units((state >> 20) % (Rate::LIMIT.units() + 1)).expect("a rate");
            let (words, limit) = (rate.in_words(), u128::from(Rate::LIMIT.units()));
            let exact = u128::from(rate.units()) << 64;
            assert!(words * limit <= exact && exact < (words + 1) * limit, "{rate}");
        }
        assert_eq!(Rate::LIMIT.in_words(), 1 << 64);
        assert_eq!(Rate::ZERO.in_words(), 0);
    }

    #[test]
    fn limits_hold_at_the_edge() {
        assert_eq!(Epsilon::cost("1000000"), Ok(Epsilon::LIMIT));
        assert_eq!(Epsilon::cost("1000000.0000000000001"), Err(NumberError::TooLarge));
        assert_eq!(Epsilon::ceiling("1000000.0000000000001"), Ok(Epsilon::LIMIT));
        assert_eq!(Delta::cost("1"), Err(NumberError::TooLarge));
        assert_eq!(Delta::ceiling("0.9999999999999999999"), Ok(Delta::LIMIT));
        assert_eq!(Rate::cost("1"), Ok(Rate::LIMIT));
        assert_eq!(Rate::cost("1.0000000000001"), Err(NumberError::TooLarge));
        assert_eq!(Sigma::cost("1.9999999999").map(Sigma::units), Ok(1_999_999_999), "less noise costs more");
    }

    #[test]
    fn printing_and_reading_are_inverse() {
        for units in [0, 1, 7, 999_999_999_999, 1_000_000_000_000, 50_000_000_000, 1_000_000_000_000_000_000] {
            let value = Epsilon::from_units(units).expect("within the limit");
            assert_eq!(Epsilon::cost(&value.to_string()), Ok(value));
            assert_eq!(Epsilon::ceiling(&value.to_string()), Ok(value));
        }
        assert_eq!(Epsilon::cost("0.050").expect("a number").to_string(), "0.05");
        assert_eq!(format!("{:?}", Delta::cost("1e-6").expect("a number")), "Delta(0.000001)");
    }

    #[test]
    fn every_error_says_what_is_wrong() {
        for error in [
            NumberError::NotADecimal,
            NumberError::TooLong,
            NumberError::Negative,
            NumberError::Zero,
            NumberError::TooLarge,
        ] {
            assert!(error.to_string().len() > 3);
        }
    }
}
