//! Encoding: total on every row, as documented, and unchanged by serialisation.

#![allow(clippy::unwrap_used, reason = "a test that cannot get its number has failed")]

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use sage_kernel::Rows;
use sage_learn::encode::{
    Categories, Encoding, EncodingError, Field, FieldKind, Join, Key, KeyKind, Label, LabelKind, Mean, Scale, Source,
    Span, Stated, integer_index, text_index,
};

/// One value of a row.
#[derive(Clone, Debug)]
enum Value {
    Null,
    Number(f64),
    Integer(i64),
    Text(String),
}

struct Row(Vec<Value>);

impl Source for Row {
    fn number(&self, column: u32) -> Option<f64> {
        match self.0.get(column as usize)? {
            Value::Number(number) => Some(*number),
            Value::Integer(integer) => Some(*integer as f64),
            _ => None,
        }
    }

    fn integer(&self, column: u32) -> Option<i64> {
        if let Value::Integer(integer) = self.0.get(column as usize)? { Some(*integer) } else { None }
    }

    fn text(&self, column: u32) -> Option<&str> {
        if let Value::Text(text) = self.0.get(column as usize)? { Some(text) } else { None }
    }
}

fn texts() -> KeyKind {
    KeyKind::OneOf(Categories::Texts(["walk", "bus", "car"].map(str::to_owned).to_vec()))
}

fn scale(low: f64, high: f64) -> Scale {
    Scale { low, high, span: Span::Signed, missing: Some(0.0) }
}

fn field(name: &str, kind: FieldKind) -> Field {
    Field { name: name.to_owned(), kind }
}

const LABEL: Label = Label { column: 3, kind: LabelKind::Number { low: -2.0, high: 5.0 } };

/// One field of every kind over columns: a number, a text, a whole number, the label.
fn stated() -> Stated {
    let join = Join {
        key: Key { column: 2, kind: KeyKind::HashInteger(7) },
        mean: Mean::Label,
        scale: scale(-2.0, 5.0),
        table: Vec::new(),
    };
    let hours = Key { column: 2, kind: KeyKind::OneOf(Categories::Integers(vec![9, 3, 5])) };
    let fields = vec![
        field("speed", FieldKind::Number { column: 0, scale: scale(0.0, 10.0) }),
        field("mode", FieldKind::Category(Key { column: 1, kind: texts() })),
        field("rate", FieldKind::Join(join)),
        field("bucket", FieldKind::Category(Key { column: 0, kind: KeyKind::Bucket(vec![-1.0, 0.0, 2.5]) })),
        field("hashed", FieldKind::Category(Key { column: 1, kind: KeyKind::HashText(11) })),
        field("cross", FieldKind::Cross(Key { column: 1, kind: texts() }, hours)),
    ];
    Stated { fields, label: LABEL }
}

fn encoding() -> Encoding {
    Encoding::new(stated()).unwrap()
}

/// Numbers, one-hot indices and label of one row.
fn encoded(values: Vec<Value>) -> (Vec<f32>, Vec<u32>, f32) {
    let batch = encoding().encode(std::iter::once(Row(values)));
    let row = batch.row(0);
    (row.numbers.to_vec(), row.indices.to_vec(), row.label)
}

#[test]
fn every_field_has_its_index() {
    let text = |text: &str| Value::Text(text.to_owned());
    let layout = encoding().layout();
    // mode 4, bucket 5, hashed 12, cross 4 · 4.
    assert_eq!((layout.numbers, layout.active, layout.columns), (2, 4, 37));
    let (numbers, indices, label) =
        encoded(vec![Value::Number(7.5), text("bus"), Value::Integer(5), Value::Number(1.5)]);
    assert_eq!(numbers, [0.5, integer_index(5, 7).expect("small") as f32]);
    assert_eq!(indices, [1, 4 + 3, 9 + text_index("bus", 11), 21 + 4 + 2]);
    assert!((label - 1.5).abs() < 1e-9);
    let (numbers, indices, label) = encoded(vec![Value::Null, Value::Null, Value::Null, Value::Number(-9.0)]);
    assert_eq!(numbers, [0.0, 7.0]);
    assert_eq!(indices, [3, 4 + 4, 9 + 11, 21 + 15]);
    assert!((label + 2.0).abs() < 1e-9, "a label is clipped to its bounds");
    let (_, indices, label) = encoded(vec![Value::Number(-1.0), text("Bus"), Value::Integer(9), Value::Number(9.0)]);
    assert_eq!(indices, [3, 4 + 1, 9 + text_index("Bus", 11), 21 + 12]);
    assert!((label - 5.0).abs() < 1e-9);
}

const NOT_FINITE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Regression test: a missing label was encoded as the lower bound of the label, in training and in tests.
#[test]
fn a_row_without_a_label_is_left_out() {
    let row = |label: Value| Row(vec![Value::Number(1.0), Value::Null, Value::Integer(2), label]);
    let missing = NOT_FINITE.map(Value::Number).into_iter().chain([Value::Null, Value::Text("1".to_owned())]);
    for kind in [LABEL.kind, LabelKind::Truth] {
        let encoding = Encoding::new(Stated { label: Label { kind, ..LABEL }, ..stated() }).unwrap();
        for label in missing.clone() {
            assert!(!encoding.takes(&row(label.clone())), "{kind:?} {label:?}");
            let batch = encoding.encode([row(Value::Number(1.0)), row(label), row(Value::Number(0.0))].into_iter());
            assert_eq!((batch.count(), batch.row(0).label, batch.row(1).label), (2, 1.0, 0.0), "{kind:?}");
        }
        assert_eq!(encoding.encode(std::iter::once(Row(Vec::new()))).count(), 0);
    }
}

/// The rules for a missing number: left out, a constant, a constant and an indicator; and beside the row.
#[test]
fn a_missing_number_follows_its_rule() {
    let none = Scale { missing: None, ..scale(0.0, 10.0) };
    let of = |kinds: Vec<FieldKind>| {
        let fields = kinds.into_iter().zip(["a", "b"]).map(|(kind, name)| field(name, kind)).collect();
        Encoding::new(Stated { fields, label: LABEL }).unwrap()
    };
    let number = |scale| FieldKind::Number { column: 0, scale };
    let left_out = of(vec![number(none)]);
    let constant = of(vec![number(Scale { missing: Some(0.25), ..none })]);
    let indicator = of(vec![number(Scale { missing: Some(0.0), ..none }), FieldKind::Missing { column: 0 }]);
    let beside = of(vec![FieldKind::Missing { column: 0 }, FieldKind::Beside { column: 0, scale: none }]);
    assert_eq!(indicator.layout().numbers, 2);
    let missing = NOT_FINITE.map(Value::Number).into_iter().chain([Value::Null, Value::Text("1".to_owned())]);
    for value in missing {
        let row = || std::iter::once(Row(vec![value.clone(), Value::Null, Value::Null, Value::Number(1.0)]));
        assert_eq!(left_out.encode(row()).count(), 0, "{value:?}");
        assert_eq!(constant.encode(row()).row(0).numbers, [0.25]);
        assert_eq!(indicator.encode(row()).row(0).numbers, [0.0, 1.0]);
        let batch = beside.encode(row());
        assert_eq!((batch.count(), batch.row(0).numbers), (1, &[1.0][..]));
        assert!(batch.row(0).beside[0].is_nan(), "it is in no group mean");
    }
    let row = || std::iter::once(Row(vec![Value::Number(7.5), Value::Null, Value::Null, Value::Number(1.0)]));
    assert_eq!(left_out.encode(row()).row(0).numbers, [0.5]);
    assert_eq!(indicator.encode(row()).row(0).numbers, [0.5, 0.0]);
    assert_eq!(beside.encode(row()).row(0).beside, [0.5]);
}

/// Regression test: an infinite number is missing; it was in the last bucket.
#[test]
fn a_missing_number_has_a_bucket_of_its_own() {
    let bucket = FieldKind::Category(Key { column: 0, kind: KeyKind::Bucket(vec![0.0, 1.0]) });
    let encoding = Encoding::new(Stated { fields: vec![field("a", bucket)], label: LABEL }).unwrap();
    let index = |value: Value| {
        let row = Row(vec![value, Value::Null, Value::Null, Value::Number(1.0)]);
        encoding.encode(std::iter::once(row)).row(0).indices[0]
    };
    assert_eq!([-1e308, 0.5, 1e308].map(|number| index(Value::Number(number))), [0, 1, 2]);
    assert!(NOT_FINITE.iter().all(|&number| index(Value::Number(number)) == 3) && index(Value::Null) == 3);
}

const HASH_KEY: [i128; 3] = [1_843_378, 44_564_083, 43_317_574];

/// Computed independently; hashes must never change, since bundles contain them.
#[test]
fn hashes_never_change() {
    assert_eq!(text_index("", u32::MAX), (0xcbf2_9ce4_8422_2325_u64 % u64::from(u32::MAX)) as u32);
    assert_eq!(text_index("foobar", u32::MAX), (0x8594_4171_f739_67e8_u64 % u64::from(u32::MAX)) as u32);
    // SplitMix64 from 0, each word modulo 67108858 and one more.
    let by_hand = |value: i128| {
        let [a, b, c] = HASH_KEY;
        let (low, high) = (value.rem_euclid(1 << 26), value.div_euclid(1 << 26) + (1 << 27));
        ((a * low + b * high + c) % 67_108_859 % 1000) as u32
    };
    for value in [0, 1, -1, 17, 2_147_483_647, -2_147_483_648, 1 << 53, -(1 << 53)] {
        assert_eq!(integer_index(value, 1000), Some(by_hand(i128::from(value))), "{value}");
    }
    assert_eq!([i64::MAX, i64::MIN, (1 << 53) + 1].map(|large| integer_index(large, 1000)), [None; 3]);
    assert_eq!((integer_index(3, 0), text_index("a", 0)), (None, 0));
}

#[test]
fn hashes_spread() {
    let mut seen = [0u32; 16];
    (0..16_000).for_each(|value| seen[integer_index(value * 1000, 16).expect("small") as usize] += 1);
    assert!(seen.iter().all(|&count| (700..1300).contains(&count)), "{seen:?}");
    let mut seen = [0u32; 16];
    (0..16_000).for_each(|value| seen[text_index(&value.to_string(), 16) as usize] += 1);
    assert!(seen.iter().all(|&count| (700..1300).contains(&count)), "{seen:?}");
}

#[test]
fn an_encoding_is_unchanged_by_serialisation() {
    let serialised = serde_json::to_string(&encoding()).unwrap();
    let read: Encoding = serde_json::from_str(&serialised).unwrap();
    assert_eq!(read, encoding());
    assert!(serde_json::from_str::<Encoding>(&serialised.replace("10.0", "-10.0")).is_err());
    assert!(serde_json::from_str::<Encoding>(&serialised.replace("\"label\"", "\"lable\"")).is_err());
}

#[test]
fn invalid_encodings_are_refused() {
    let one = |kind: FieldKind| Encoding::new(Stated { fields: vec![field("a", kind)], label: LABEL }).err();
    let number = |scale: Scale| one(FieldKind::Number { column: 0, scale });
    let key = |kind: KeyKind| one(FieldKind::Category(Key { column: 0, kind }));
    assert_eq!(number(scale(0.0, 1.0)), None);
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
        assert_eq!(number(scale(low, high)), Some(EncodingError::Bounds));
    }
    assert_eq!(number(Scale { missing: Some(1.5), ..scale(0.0, 1.0) }), Some(EncodingError::Missing));
    assert_eq!(number(Scale { missing: Some(f32::NAN), ..scale(0.0, 1.0) }), Some(EncodingError::Missing));
    assert_eq!(
        number(Scale { missing: Some(-0.5), span: Span::Unit, ..scale(0.0, 1.0) }),
        Some(EncodingError::Missing)
    );
    let categories = [
        KeyKind::OneOf(Categories::Texts(Vec::new())),
        KeyKind::OneOf(Categories::Texts(vec!["a".to_owned(), "a".to_owned()])),
        KeyKind::OneOf(Categories::Integers(vec![1, 2, 1])),
        KeyKind::Bucket(Vec::new()),
        KeyKind::Bucket(vec![1.0, 1.0]),
        KeyKind::Bucket(vec![f64::NAN]),
        KeyKind::HashInteger(0),
    ];
    for kind in categories {
        assert_eq!(key(kind), Some(EncodingError::Categories));
    }
    assert_eq!(key(KeyKind::HashText(u32::MAX)), Some(EncodingError::TooManyCategories));
    let wide = || Key { column: 0, kind: KeyKind::HashText(1 << 13) };
    assert_eq!(one(FieldKind::Cross(wide(), wide())), Some(EncodingError::TooManyCategories));
    let twice = Stated { fields: vec![stated().fields[0].clone(), stated().fields[0].clone()], label: LABEL };
    assert_eq!(Encoding::new(twice).err(), Some(EncodingError::Name));
    assert_eq!(Encoding::new(Stated { fields: Vec::new(), label: LABEL }).err(), Some(EncodingError::Empty));
    let label = Label { column: 0, kind: LabelKind::Number { low: 0.0, high: 1e300 } };
    assert_eq!(Encoding::new(Stated { label, ..stated() }).err(), Some(EncodingError::Bounds));
    let join = |mean: Mean, table: Vec<f32>| {
        let key = Key { column: 2, kind: KeyKind::HashInteger(2) };
        one(FieldKind::Join(Join { key, mean, scale: scale(0.0, 1.0), table }))
    };
    assert_eq!(join(Mean::Label, vec![0.0, 1.0, -1.0]), None);
    assert_eq!(join(Mean::Label, vec![0.0, 1.0]), Some(EncodingError::Table));
    assert_eq!(join(Mean::Label, vec![0.0, 1.0, 2.0]), Some(EncodingError::Table));
    assert_eq!(join(Mean::Field("unknown".to_owned()), Vec::new()), Some(EncodingError::Table));
}

#[test]
fn a_joined_table_replaces_the_key() {
    let means: Vec<f64> = (0..8).map(|key| f64::from(key) - 2.0).collect();
    let fitted = encoding().with_table("rate", &means).unwrap();
    let row = |integer| Row(vec![Value::Number(1.0), Value::Null, Value::Integer(integer), Value::Number(0.0)]);
    let mut before = encoding().encode((0..50).map(row));
    let after = fitted.encode((0..50).map(row));
    before.join(1, &fitted.joins().next().unwrap().2.table);
    before.join(9, &[1.0]);
    for index in 0..50 {
        assert_eq!(before.row(index).numbers, after.row(index).numbers);
        assert_eq!(before.row(index).indices, after.row(index).indices);
    }
    assert_eq!(encoding().with_table("rate", &[0.0]).err(), Some(EncodingError::Table));
    assert_eq!(encoding().with_table("speed", &means).err(), Some(EncodingError::Table));
    assert_eq!(encoding().with_table("rate", &[f64::NAN; 8]).unwrap().joins().next().unwrap().2.table, [0.0; 8]);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<u64>().prop_map(|bits| Value::Number(f64::from_bits(bits))),
        (-5.0..15.0).prop_map(Value::Number),
        any::<i64>().prop_map(Value::Integer),
        (0..10i64).prop_map(Value::Integer),
        ".{0,8}".prop_map(Value::Text),
        prop::sample::select(vec!["walk", "bus", "car"]).prop_map(|text| Value::Text(text.to_owned())),
    ]
}

proptest! {
    /// For every row the one-hot indices are valid, distinct and ascending, and the numbers are in their span.
    #[test]
    fn no_row_makes_it_fail(rows in prop::collection::vec(prop::collection::vec(value(), 0..5), 0..8)) {
        let means = [0.5; 8];
        for encoding in [encoding(), encoding().with_table("rate", &means).unwrap()] {
            let batch = encoding.encode(rows.iter().map(|row| Row(row.clone())));
            let labelled = |row: &&Vec<Value>| match row.get(3) {
                Some(Value::Number(label)) => label.is_finite(),
                other => matches!(other, Some(Value::Integer(_))),
            };
            assert_eq!(batch.count(), rows.iter().filter(labelled).count());
            let layout = encoding.layout();
            for index in 0..batch.count() {
                let row = batch.row(index);
                assert_eq!((row.numbers.len(), row.indices.len()), (layout.numbers as usize, layout.active as usize));
                assert!(row.indices.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(row.indices.iter().all(|&index| index < layout.columns));
                assert!((-1.0..=1.0).contains(&row.numbers[0]));
                assert!((-1.0..8.0).contains(&row.numbers[1]));
                assert!((-2.0..=5.0).contains(&row.label));
            }
        }
    }

    #[test]
    fn truth_is_one_or_zero(bits in any::<u64>()) {
        let label = Label { column: 0, kind: LabelKind::Truth };
        let encoding = Encoding::new(Stated { label, ..stated() }).unwrap();
        let number = f64::from_bits(bits);
        let batch = encoding.encode(std::iter::once(Row(vec![Value::Number(number)])));
        assert_eq!(batch.count(), usize::from(number.is_finite()));
        assert!(!number.is_finite() || (batch.row(0).label - f32::from(number >= 0.5)).abs() < 1e-9);
    }
}
