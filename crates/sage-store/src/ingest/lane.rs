//! Random assignment of rows to lanes (train or test): per row, or per user in streams of users.
//!
//! The kernel draws the lanes. A lane must never depend on a row's position, on the number of rows, or on any
//! contents other than the user's id under a secret key.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use sage_kernel::noise::{NoiseError, SecureNoise, uniform_below};
use sage_kernel::{Lane, LaneKey, Split};

/// Sets the lane of each row by its user: true for the test lane. Returns `None` if `users` is not a column of ids. A
/// user is in the same lane in every batch, and lanes are independent between streams.
pub(super) fn assign_user_lanes(split: Split, key: &LaneKey, users: &ArrayRef, lanes: &mut [bool]) -> Option<()> {
    if let Some(numbers) = users.as_primitive_opt::<Int64Type>() {
        for (lane, number) in lanes.iter_mut().zip(numbers.values()) {
            *lane = split.lane_of_unit(key, &number.to_le_bytes()) == Lane::Test;
        }
        return Some(());
    }
    let texts = users.as_string_opt::<i32>()?;
    for (lane, text) in lanes.iter_mut().zip(texts.iter()) {
        *lane = split.lane_of_unit(key, text.unwrap_or_default().as_bytes()) == Lane::Test;
    }
    Some(())
}

/// Draws the secret of a batch, 32 bytes from which the salts of its parts are derived.
pub(super) fn draw_salt(noise: &mut SecureNoise) -> Result<[u8; 32], NoiseError> {
    let mut salt = [0; 32];
    for piece in salt.chunks_exact_mut(8) {
        piece.copy_from_slice(&uniform_below(noise, u64::MAX)?.to_le_bytes());
    }
    Ok(salt)
}
