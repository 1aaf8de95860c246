//! Decimals as text and as whole numbers of units, exactly. No floating-point number.

/// The direction in which a decimal between two units is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Up: for costs.
    Up,
    /// Down: for ceilings.
    Down,
}

/// Why a decimal text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberError {
    /// The text is not a plain decimal such as `0.05` or `1e-6`.
    NotADecimal,
    /// The text is longer than 64 characters.
    TooLong,
    /// The number is negative.
    Negative,
    /// The number is zero where it must be positive.
    Zero,
    /// The number is above the limit of its type.
    TooLarge,
}

impl std::fmt::Display for NumberError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(match self {
            Self::NotADecimal => "not a decimal number; write it like 0.05 or 1e-6",
            Self::TooLong => "longer than 64 characters",
            Self::Negative => "negative; it must be zero or more",
            Self::Zero => "zero; it must be more than zero",
            Self::TooLarge => "larger than allowed",
        })
    }
}

impl std::error::Error for NumberError {}

/// The length of the longest text that is parsed, in bytes.
pub const TEXT_LIMIT: usize = 64;

/// Parses a decimal as a whole number of units of 10^-`decimals`, rounded in the given direction.
///
/// # Guarantee
/// The result is the exact floor or ceiling of the decimal times 10^`decimals`, or an error. No text makes it panic or
/// overflow, and its running time is bounded by the length of the text.
pub fn parse_units(text: &str, decimals: u32, round: Round) -> Result<u64, NumberError> {
    if text.len() > TEXT_LIMIT {
        return Err(NumberError::TooLong);
    }
    let (text, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if (whole.is_empty() && fraction.is_empty()) || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err(NumberError::NotADecimal);
    }
    // The number of digits that count whole units; later digits are fractions of a unit.
    let cut = i64::try_from(whole.len()).unwrap_or(i64::MAX) + exponent + i64::from(decimals);
    let mut units: u64 = 0;
    let mut rest = false;
    let mut count: i64 = 0;
    for digit in digits() {
        if count < cut {
            units = push_digit(units, digit - b'0')?;
        } else {
            rest |= digit != b'0';
        }
        count += 1;
    }
    while count < cut && units > 0 {
        units = push_digit(units, 0)?;
        count += 1;
    }
    if negative && (units > 0 || rest) {
        return Err(NumberError::Negative);
    }
    match round {
        Round::Up if rest => units.checked_add(1).ok_or(NumberError::TooLarge),
        _ => Ok(units),
    }
}

fn parse_exponent(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NumberError::NotADecimal);
    }
    // Beyond this bound the exponent alone determines the result: zero or too large.
    let bound = i64::from(i32::MAX);
    let beyond = if text.starts_with('-') { -bound } else { bound };
    Ok(text.parse().map_or(beyond, |exponent: i64| exponent.clamp(-bound, bound)))
}

fn push_digit(units: u64, digit: u8) -> Result<u64, NumberError> {
    units.checked_mul(10).and_then(|units| units.checked_add(u64::from(digit))).ok_or(NumberError::TooLarge)
}

/// The shortest decimal that equals `units` times 10^-`decimals`.
pub fn decimal(units: u128, decimals: u32) -> String {
    let scale = 10u128.pow(decimals);
    let (whole, fraction) = (units / scale, units % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = format!("{fraction:0width$}", width = decimals as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}
