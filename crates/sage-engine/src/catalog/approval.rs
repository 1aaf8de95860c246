//! The two-officer rule: a change of a stream's officers needs the approval of a second officer.
//!
//! The rule is checked when the log is folded. Older releases wrote definitions without an approval, and their logs
//! stay readable. A definition that names an approval must name the pending proposal and be made by an officer other
//! than the proposer. Once a stream has one such definition, every later change of its officers needs an approval.

use super::{Proposal, Stream};
use crate::stream::StreamFile;

/// A new definition of a stream, to replace the one in force.
pub(super) struct Definition<'note> {
    pub(super) file: &'note StreamFile,
    pub(super) by: &'note str,
    /// The digest of the proposal that this definition approves.
    pub(super) approves: Option<&'note str>,
}

impl Stream {
    /// Whether the definition has the approval it needs.
    pub(super) fn is_approved(&self, definition: &Definition<'_>) -> bool {
        let Definition { file, by, approves } = definition;
        let officers = self.file.officers();
        let approved = |digest: &str, proposal: &Proposal| {
            proposal.digest() == digest
                && proposal.by != *by
                && officers.contains(*by)
                && officers.contains(proposal.by.as_str())
                && StreamFile::parse(&proposal.text).is_ok_and(|proposed| proposed == **file)
        };
        match (approves, &self.proposal) {
            (Some(digest), Some(proposal)) => approved(digest, proposal),
            (Some(_), None) => false,
            (None, _) => !self.approvals_recorded || officers == file.officers(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Catalog, Note, text_digest};
    use crate::generate::TAXI;
    use crate::stream::StreamFile;

    fn text(officers: &str) -> String {
        let text = TAXI.replace("[\"ada\", \"bob\"]", officers);
        StreamFile::parse(&text).expect("a file").to_text()
    }

    fn definition(text: &str, by: &str, approves: Option<String>) -> Note {
        Note::StreamDefined {
            stream: "taxi".to_owned(),
            text: text.to_owned(),
            secret: None,
            by: by.to_owned(),
            approves,
        }
    }

    fn proposal(text: &str, by: &str) -> Note {
        Note::PolicyProposed { stream: "taxi".to_owned(), text: text.to_owned(), by: by.to_owned() }
    }

    fn fold(notes: &[Note]) -> Result<Catalog, usize> {
        let mut catalog = Catalog::default();
        for (index, note) in notes.iter().enumerate() {
            catalog.apply(note.clone()).map_err(|_| index)?;
        }
        Ok(catalog)
    }

    /// Regression: the engine required two officers, but the fold of the log accepted any definition.
    #[test]
    fn the_fold_requires_two_officers_for_a_change_of_officers() {
        let (first, second, third) =
            (text("[\"ada\", \"bob\"]"), text("[\"ada\", \"cem\"]"), text("[\"ada\", \"eve\"]"));
        let approves = |text: &str| Some(text_digest(text));
        let start = || vec![definition(&first, "ada", None), proposal(&second, "ada")];
        let after = |notes: &[Note]| fold(&[start(), notes.to_vec()].concat()).map(drop);
        assert_eq!(after(&[definition(&second, "bob", approves(&second))]), Ok(()));
        for (why, wrong) in [
            ("by the proposer", definition(&second, "ada", approves(&second))),
            ("by a person who is no officer", definition(&second, "mia", approves(&second))),
            ("of another digest", definition(&second, "bob", approves(&third))),
            ("of another file", definition(&third, "bob", approves(&second))),
        ] {
            assert_eq!(after(&[wrong]), Err(2), "{why}");
        }
        let unproposed = [definition(&first, "ada", None), definition(&second, "bob", approves(&second))];
        assert_eq!(fold(&unproposed).map(drop), Err(1));
        // After one recorded approval, a change of officers without one is rejected.
        let under_rule = [definition(&second, "bob", approves(&second)), definition(&third, "ada", None)];
        assert_eq!(after(&under_rule), Err(3));
        let same_officers = [definition(&second, "bob", approves(&second)), definition(&second, "ada", None)];
        assert_eq!(after(&same_officers), Ok(()));
    }

    #[test]
    fn logs_from_before_the_rule_stay_readable() {
        let notes = [
            definition(&text("[\"ada\", \"bob\"]"), "ada", None),
            definition(&text("[\"ada\", \"cem\"]"), "ada", None),
        ];
        assert!(fold(&notes).is_ok());
    }
}
