//! Arbitrary bytes are either refused or read, without panics.

use sage_model::bundle::{Bundle, BundleError};

use crate::draw::Draw;
use crate::files::{bundle, files};

/// Files whose changes must be detected even without a digest.
const CHECKED: [&str; 4] = ["model.onnx", "weights.safetensors", "MLmodel", "requirements.txt"];

#[test]
fn flips_and_cuts_are_detected() {
    let seed = 11;
    let bundle = bundle(seed);
    let digest = bundle.digest();
    let draw = &mut Draw(seed);
    for round in 0..600 {
        let mut changed = files(&bundle);
        let which = draw.below(changed.len());
        let (name, bytes) = &mut changed[which];
        let position = draw.below(bytes.len());
        match round % 3 {
            0 => bytes[position] ^= 1 << draw.below(8),
            1 => bytes.truncate(position),
            _ => {
                let length = draw.below(16).min(bytes.len() - position);
                bytes[position..position + length].fill(draw.next() as u8);
            }
        }
        let name = name.clone();
        let same = changed == files(&bundle);
        assert_eq!(Bundle::read_vouched(changed.clone(), &digest).is_ok(), same, "seed {seed} round {round} {name}");
        let read = Bundle::read(changed);
        if CHECKED.contains(&name.as_str()) {
            assert_eq!(read.is_ok(), same, "seed {seed} round {round} {name}");
        }
    }
}

#[test]
fn descriptions_that_are_too_large_are_refused_before_allocation() {
    let good = bundle(11);
    let text = |bundle: &Bundle| {
        let (_, bytes) = bundle.files().find(|(name, _)| *name == "graph.json").unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let original = text(&good);
    let outputs = original.rfind("\"outputs\": ").unwrap();
    let end = outputs + original[outputs..].find(',').unwrap();
    let huge = format!("{}\"outputs\": 4294967295{}", &original[..outputs], &original[end..]);
    let deep = original.replacen("\"formula\": ", &format!("\"formula\": {}", "{\"not\":".repeat(100_000)), 1);
    for (description, what) in
        [(huge, "outputs"), (deep, "depth"), ("{}".to_owned(), "nothing"), (String::new(), "none")]
    {
        let mut changed = files(&good);
        let position = changed.iter().position(|(name, _)| name == "graph.json").unwrap();
        changed[position].1 = description.into_bytes();
        let error = Bundle::read(changed).unwrap_err();
        let named = matches!(error, BundleError::Graph(_) | BundleError::Unreadable { .. });
        assert!(named, "{what}: {error}");
    }
}

#[test]
fn files_are_complete_and_no_others_are_accepted() {
    let good = bundle(11);
    for missing in 0..files(&good).len() {
        let mut fewer = files(&good);
        let (name, _) = fewer.remove(missing);
        assert_eq!(Bundle::read(fewer), Err(BundleError::Missing(name)));
    }
    let mut more = files(&good);
    more.push(("model.pkl".to_owned(), vec![0x80, 0x04]));
    assert_eq!(Bundle::read(more), Err(BundleError::Unexpected("model.pkl".to_owned())));
    let mut twice = files(&good);
    let again = twice[0].clone();
    twice.push(again.clone());
    assert_eq!(Bundle::read(twice), Err(BundleError::Unexpected(again.0)));
}
