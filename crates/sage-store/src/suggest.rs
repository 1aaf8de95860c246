//! How far a mistyped name is from a known one, for every "did you mean".

/// How many characters must be put in, left out or changed to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, from) in one.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (at, to) in other.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// The known name fewest changes away, if so few that it may have been meant.
pub fn nearest<'name>(typed: &str, known: &[&'name str]) -> Option<&'name str> {
    // A name is short; what is much longer is no slip of a finger.
    if typed.chars().count() > 40 {
        return None;
    }
    let (distance, name) = known.iter().map(|name| (distance(typed, name), *name)).min()?;
    (distance <= 1 + name.len() / 4).then_some(name)
}
