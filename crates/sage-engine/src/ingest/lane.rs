//! Each row's lane: by a coin of its own, or in streams of users by its user's.
//!
//! The coins are the kernel's. A lane must never follow from a row's place, from how many rows there are, or
//! from contents other than the user's id under a secret key.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use sage_kernel::noise::{NoiseError, SecureNoise, uniform_below};
use sage_kernel::{Lane, Rate, Split};

/// The secret by which users are sent to lanes, the same for all batches of a stream, and never shown.
///
/// PENDING: the kernel's `LaneKey` takes this place, and `Split::of_unit` that of [`of_user`].
pub struct UserKey([u8; 32]);

impl UserKey {
    /// From 32 secret bytes that the engine keeps for the stream.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Draws a coin for each row: true for the test lane.
///
/// PENDING: `Split::draw_many` fills the slice at once.
pub(super) fn of_rows(split: Split, noise: &mut SecureNoise, lanes: &mut [bool]) -> Result<(), NoiseError> {
    for lane in lanes {
        *lane = split.draw(noise)? == Lane::Test;
    }
    Ok(())
}

/// The lane of a user: true for the test lane. A keyed hash of the id is the coin, so that it falls the same
/// way whenever the user comes again, and differently in every stream.
///
/// PENDING: this one function is to be the kernel's `Split::of_unit`.
fn of_user(test_share: Rate, key: &UserKey, id: &[u8]) -> bool {
    let digest = blake3::keyed_hash(&key.0, id);
    let mut word = [0; 16];
    word.copy_from_slice(&digest.as_bytes()[..16]);
    // The bias of a remainder of 128 bits is below one in 10^26.
    let drawn = u128::from_le_bytes(word) % u128::from(Rate::LIMIT.units());
    drawn < u128::from(test_share.units())
}

/// The lanes of rows by the column with their users; nothing if that is no column of ids.
pub(super) fn of_users(test_share: Rate, key: &UserKey, users: &ArrayRef, lanes: &mut [bool]) -> Option<()> {
    let mut id = Vec::new();
    if let Some(numbers) = users.as_primitive_opt::<Int64Type>() {
        for (lane, number) in lanes.iter_mut().zip(numbers.values()) {
            id.clear();
            id.push(b'n');
            id.extend_from_slice(&number.to_le_bytes());
            *lane = of_user(test_share, key, &id);
        }
        return Some(());
    }
    let texts = users.as_string_opt::<i32>()?;
    for (lane, text) in lanes.iter_mut().zip(texts.iter()) {
        id.clear();
        id.push(b't');
        id.extend_from_slice(text.unwrap_or_default().as_bytes());
        *lane = of_user(test_share, key, &id);
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
