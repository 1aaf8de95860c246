//! Flag values of the form `name=value,name=value`, read against what is allowed.
//!
//! Every value is decimal text read by the kernel's own parser, so that not-a-number, infinity and
//! negative values have no way in. Each error names the flag, the field, what was given and what is
//! allowed.

use sage_engine::{Delta, Epsilon, NumberError, Rate, Sigma};
use sage_server::format::quoted;

use crate::failure::Failure;
use crate::suggest::nearest;

/// The fields of one flag's value, each taken at most once.
pub(crate) struct Fields<'text> {
    flag: &'static str,
    example: &'static str,
    pairs: Vec<(&'static str, &'text str)>,
}

impl<'text> Fields<'text> {
    /// Splits a flag's value into the fields it may have.
    pub(crate) fn read(
        flag: &'static str, example: &'static str, names: &'static [&'static str], text: &'text str,
    ) -> Result<Self, Failure> {
        let mut fields = Self { flag, example, pairs: Vec::new() };
        if text.trim().is_empty() {
            return Err(fields.wrong(format!("no field is given; its fields are {}", names.join(", "))));
        }
        for item in text.split(',') {
            let Some((name, value)) = item.split_once('=') else {
                return Err(fields.wrong(format!("{} is not a field; write name=value", quoted(item))));
            };
            let typed = name.trim();
            let Some(&name) = names.iter().find(|name| **name == typed) else {
                return Err(fields.unknown(typed, names));
            };
            if fields.pairs.iter().any(|(before, _)| *before == name) {
                return Err(fields.wrong(format!("{name} is given twice")));
            }
            fields.pairs.push((name, value.trim()));
        }
        Ok(fields)
    }

    fn wrong(&self, what: String) -> Failure {
        Failure::usage(format!("{}: {what}", self.flag), format!("{} {}", self.flag, self.example))
    }

    fn unknown(&self, typed: &str, names: &[&'static str]) -> Failure {
        self.wrong(match nearest(typed, names) {
            Some(meant) => format!("there is no field {}; did you mean {meant}?", quoted(typed)),
            None => format!("there is no field {}; its fields are {}", quoted(typed), names.join(", ")),
        })
    }

    /// The value of a field, if it was given.
    pub(crate) fn optional(&self, name: &str) -> Option<&'text str> {
        self.pairs.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    fn required(&self, name: &str) -> Result<&'text str, Failure> {
        self.optional(name).ok_or_else(|| self.wrong(format!("{name} is missing")))
    }

    /// A number that must be given.
    pub(crate) fn number<Value>(&self, name: &str, kind: &Number<Value>) -> Result<Value, Failure> {
        let text = self.required(name)?;
        (kind.read)(text).map_err(|why| self.wrong(kind.explain(name, text, why)))
    }

    /// A whole number; one if it is not given.
    pub(crate) fn count(&self, name: &str) -> Result<u32, Failure> {
        self.optional(name).map_or(Ok(1), |text| self.whole(name, text))
    }

    /// A whole number that must be given.
    pub(crate) fn steps(&self, name: &str) -> Result<u32, Failure> {
        self.whole(name, self.required(name)?)
    }

    fn whole(&self, name: &str, text: &str) -> Result<u32, Failure> {
        let plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        let number = if plain { text.parse().ok().filter(|&number: &u32| number > 0) } else { None };
        number.ok_or_else(|| {
            let given = quoted(text);
            self.wrong(format!("{name} must be a whole number from 1 to {}, got {given}", u32::MAX))
        })
    }
}

/// A kind of number: how it is read, and what is allowed.
pub(crate) struct Number<Value> {
    read: fn(&str) -> Result<Value, NumberError>,
    /// What is allowed, for the error message.
    allowed: &'static str,
    /// The ends of the range, for the error message.
    smallest: &'static str,
    largest: &'static str,
}

impl<Value> Number<Value> {
    /// Reads a flag that is one number.
    pub(crate) fn read_flag(&self, flag: &'static str, example: &'static str, text: &str) -> Result<Value, Failure> {
        (self.read)(text.trim())
            .map_err(|why| Failure::usage(self.explain(flag, text, why), format!("{flag} {example}")))
    }

    /// What is wrong with the text, and what is allowed.
    pub(crate) fn explain(&self, name: &str, text: &str, why: NumberError) -> String {
        let given = quoted(text);
        let limit = match why {
            NumberError::TooLarge => self.largest,
            NumberError::Zero if text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) => self.smallest,
            NumberError::TooLong => ", written with at most 64 characters",
            _ => "",
        };
        format!("{name} must be {}{limit}, got {given}", self.allowed)
    }
}

fn above_zero<Value: PartialEq>(value: Value, zero: &Value) -> Result<Value, NumberError> {
    if value == *zero { Err(NumberError::Zero) } else { Ok(value) }
}

/// A sampling rate.
pub(crate) const RATE: Number<Rate> = Number {
    read: |text| above_zero(Rate::cost(text)?, &Rate::ZERO),
    allowed: "a number above 0 and at most 1",
    smallest: "",
    largest: "",
};

/// Noise over sensitivity: rounded down, since less noise is what must be accounted for.
pub(crate) const NOISE: Number<Sigma> = Number {
    read: |text| above_zero(Sigma::cost(text)?, &Sigma::ZERO),
    allowed: "a number above 0",
    smallest: " and at least 1e-9",
    largest: " and at most 1e9",
};

/// The scale of Laplace noise, as [`NOISE`], but never so small that the loss is beyond the largest.
pub(crate) const SCALE: Number<Sigma> = Number {
    read: |text| {
        let scale = (NOISE.read)(text)?;
        if sage_engine::account::laplace_epsilon(scale).is_some() { Ok(scale) } else { Err(NumberError::Zero) }
    },
    allowed: "a number above 0",
    smallest: " and at least 1e-6",
    largest: " and at most 1e9",
};

/// A requested loss.
pub(crate) const LOSS: Number<Epsilon> = Number {
    read: |text| above_zero(Epsilon::cost(text)?, &Epsilon::ZERO),
    allowed: "a number above 0",
    smallest: "",
    largest: " and at most 1e6",
};

/// A loss that may be zero: a black box may fail and otherwise reveal nothing.
pub(crate) const LOSS_OR_NONE: Number<Epsilon> =
    Number { read: Epsilon::cost, allowed: "a number of 0 or more", smallest: "", largest: " and at most 1e6" };

/// The chance that a black box fails.
pub(crate) const FAILURE: Number<Delta> =
    Number { read: Delta::cost, allowed: "a number from 0 up to but below 1", smallest: "", largest: "" };

/// A loss that is allowed.
pub(crate) const LOSS_CEILING: Number<Epsilon> = Number {
    read: |text| above_zero(Epsilon::ceiling(text)?, &Epsilon::ZERO),
    allowed: "a number above 0",
    smallest: " and at least 1e-12",
    largest: " and at most 1e6",
};

/// A δ at which something is stated. Below one even before it is rounded down.
pub(crate) const STATED_DELTA: Number<Delta> = Number {
    read: |text| {
        Delta::cost(text)?;
        above_zero(Delta::ceiling(text)?, &Delta::ZERO)
    },
    allowed: "a number above 0 and below 1",
    smallest: ", at least 1e-18",
    largest: "",
};

/// The δ of a ceiling, which may be zero.
pub(crate) const DELTA_CEILING: Number<Delta> = Number {
    read: |text| {
        Delta::cost(text)?;
        Delta::ceiling(text)
    },
    allowed: "a number from 0 up to but below 1",
    smallest: "",
    largest: "",
};
