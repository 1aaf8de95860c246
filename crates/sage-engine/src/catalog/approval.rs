//! Two officers for a change of officers, as a rule of the log.
//!
//! Programs before the rule wrote definitions that name no approval, and their logs stay readable. A definition that
//! names one must name the proposal that waits, and be by another officer than that. Once a stream has such a
//! definition, its log was written under the rule, and officers change in no other way.

use super::{Proposal, Stream};
use crate::stream::StreamFile;

/// A definition of a stream that is to follow the one in force.
pub(super) struct Definition<'note> {
    pub(super) file: &'note StreamFile,
    pub(super) by: &'note str,
    /// The digest of the proposal that it approves.
    pub(super) approves: Option<&'note str>,
}

impl Stream {
    /// Whether a definition has the approvals that it needs.
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

    fn defined(text: &str, by: &str, approves: Option<String>) -> Note {
        Note::StreamDefined {
            stream: "taxi".to_owned(),
            text: text.to_owned(),
            secret: None,
            by: by.to_owned(),
            approves,
        }
    }

    fn proposed(text: &str, by: &str) -> Note {
        Note::PolicyProposed { stream: "taxi".to_owned(), text: text.to_owned(), by: by.to_owned() }
    }

    fn folded(notes: &[Note]) -> Result<Catalog, usize> {
        let mut catalog = Catalog::default();
        for (index, note) in notes.iter().enumerate() {
            catalog.apply(note.clone()).map_err(|_| index)?;
        }
        Ok(catalog)
    }

    /// The engine asked for two officers and the fold of the log took any definition.
    #[test]
    fn the_fold_takes_a_change_of_officers_only_from_two() {
        let (first, second, third) =
            (text("[\"ada\", \"bob\"]"), text("[\"ada\", \"cem\"]"), text("[\"ada\", \"eve\"]"));
        let approves = |text: &str| Some(text_digest(text));
        let start = || vec![defined(&first, "ada", None), proposed(&second, "ada")];
        let after = |notes: &[Note]| folded(&[start(), notes.to_vec()].concat()).map(drop);
        assert_eq!(after(&[defined(&second, "bob", approves(&second))]), Ok(()));
        for (why, wrong) in [
            ("by the proposer", defined(&second, "ada", approves(&second))),
            ("by a person who is no officer", defined(&second, "mia", approves(&second))),
            ("of another digest", defined(&second, "bob", approves(&third))),
            ("of another file", defined(&third, "bob", approves(&second))),
        ] {
            assert_eq!(after(&[wrong]), Err(2), "{why}");
        }
        let unproposed = [defined(&first, "ada", None), defined(&second, "bob", approves(&second))];
        assert_eq!(folded(&unproposed).map(drop), Err(1));
        // Once it is known that the log was written under the rule, officers change in no other way.
        let under_rule = [defined(&second, "bob", approves(&second)), defined(&third, "ada", None)];
        assert_eq!(after(&under_rule), Err(3));
        let same_officers = [defined(&second, "bob", approves(&second)), defined(&second, "ada", None)];
        assert_eq!(after(&same_officers), Ok(()));
    }

    #[test]
    fn logs_from_before_the_rule_stay_readable() {
        let notes =
            [defined(&text("[\"ada\", \"bob\"]"), "ada", None), defined(&text("[\"ada\", \"cem\"]"), "ada", None)];
        assert!(folded(&notes).is_ok());
    }
}
