//! The difference of two texts, line by line, for people who approve a change.

/// Every line of both texts in order: `- ` before a line of the first alone, `+ ` before one of the second alone, two
/// spaces before a line of both.
#[must_use]
pub fn changed_lines(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // common[i][j]: the length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let (mark, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            ("  ", old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ("- ", old[i - 1])
        } else {
            j += 1;
            ("+ ", new[j - 1])
        };
        text += &format!("{mark}{line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::changed_lines;

    #[test]
    fn every_line_is_shown_once_with_its_mark() {
        for (before, after, expected) in [
            ("a\nb\n", "a\nb\n", "  a\n  b\n"),
            ("a\nb\nc\n", "a\nx\nc\n", "  a\n- b\n+ x\n  c\n"),
            ("", "a\n", "+ a\n"),
            ("a\n", "", "- a\n"),
            ("a\nb\n", "b\na\n", "- a\n  b\n+ a\n"),
        ] {
            assert_eq!(changed_lines(before, after), expected);
        }
    }
}
