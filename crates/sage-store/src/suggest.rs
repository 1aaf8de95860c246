//! Suggestions for mistyped names: the name in "did you mean …?".

/// The longest typed name, in characters, that gets a suggestion. A longer text is not a typing error.
const TYPED_LIMIT: usize = 40;

/// The known name with the smallest edit distance to `typed`, or `None` if even that one is too different.
///
/// Case is ignored. The distance may be at most one plus a quarter of the known name's length.
pub fn nearest<'name>(typed: &str, known: &[&'name str]) -> Option<&'name str> {
    if typed.chars().count() > TYPED_LIMIT {
        return None;
    }
    let typed = typed.to_lowercase();
    let (distance, name) = known.iter().map(|name| (strsim::levenshtein(&typed, name), *name)).min()?;
    (distance <= 1 + name.len() / 4).then_some(name)
}
