//! Each row's lane: by a coin of its own, or in streams of users by its user's.
//!
//! The coins are the kernel's. A lane must never follow from a row's place, from how many rows there are, or
//! from contents other than the user's id under a secret key.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use sage_kernel::noise::{NoiseError, SecureNoise, uniform_below};
use sage_kernel::{Lane, LaneKey, Split};

/// The lanes of rows by the column with their users, true for the test lane; nothing if that is no column of
/// ids. A user's coin falls the same way whenever the user comes again, and differently in every stream.
pub(super) fn of_users(split: Split, key: &LaneKey, users: &ArrayRef, lanes: &mut [bool]) -> Option<()> {
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

/// Thirty-two bytes that nobody can guess, from which the salts of a batch's parts are made.
pub(super) fn salt(noise: &mut SecureNoise) -> Result<[u8; 32], NoiseError> {
    let mut salt = [0; 32];
    for piece in salt.chunks_exact_mut(8) {
        piece.copy_from_slice(&uniform_below(noise, u64::MAX)?.to_le_bytes());
    }
    Ok(salt)
}
