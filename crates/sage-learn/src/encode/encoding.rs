//! An encoding: the list of fields with their sources, public and the same for every row.

use serde::{Deserialize, Serialize};

use super::key::{Key, Prepared};
use super::rows::{Encoded, Layout, Parts};
use super::scale::{Scale, present};

/// One row as an encoding reads it, by column index. `None` if a value is null, of another type, or there is no such
/// column.
pub trait Source {
    /// A number, whole or not; a truth value counts as one or zero. It may be NaN.
    fn number(&self, column: u32) -> Option<f64>;
    /// A whole number, or a truth value as one or zero.
    fn integer(&self, column: u32) -> Option<i64>;
    /// A text.
    fn text(&self, column: u32) -> Option<&str>;
}

impl<S: Source> Source for &S {
    fn number(&self, column: u32) -> Option<f64> {
        (**self).number(column)
    }

    fn integer(&self, column: u32) -> Option<i64> {
        (**self).integer(column)
    }

    fn text(&self, column: u32) -> Option<&str> {
        (**self).text(column)
    }
}

/// One field of an encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its unique name.
    pub name: String,
    /// How it is computed from a row.
    pub kind: FieldKind,
}

/// How a field is computed from a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A rescaled number.
    Number {
        /// The column.
        column: u32,
        /// Its bounds.
        scale: Scale,
    },
    /// One where a number is missing and zero where it is present.
    Missing {
        /// The column.
        column: u32,
    },
    /// An auxiliary number beside the row: a table can be fitted from it, and no learner sees it. It is NaN if it is
    /// missing and its scale has no constant for that; the row is kept.
    Beside {
        /// The column.
        column: u32,
        /// Its bounds.
        scale: Scale,
    },
    /// The category of one column.
    Category(Key),
    /// A category for every pair of categories of two columns.
    Cross(Key, Key),
    /// A number looked up in a table by the row's key.
    Join(Join),
}

/// A number looked up by key in a table that was fitted with noise.
///
/// Until the table is fitted the number is the key itself, which is exact in `f32`: the rows of a session carry the
/// key to the fit, and [`Encoded::join`] replaces it by the table's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The key.
    pub key: Key,
    /// The value whose mean the table contains for each key.
    pub mean: Mean,
    /// How a mean becomes a number of the row; its bounds are those the values are clipped to.
    pub scale: Scale,
    /// The numbers of the keys, encoded; empty until they are fitted.
    pub table: Vec<f32>,
}

/// The value whose mean a joined table contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mean {
    /// The label's.
    Label,
    /// The number of this name, which may be an auxiliary one.
    Field(String),
}

/// The label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The column.
    pub column: u32,
    /// How it is read.
    pub kind: LabelKind,
}

/// How a label is read. A missing label (null, NaN or infinite) is never replaced: its row is left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelKind {
    /// A number, clipped to its bounds.
    Number {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// One for a number of at least one half, else zero.
    Truth,
    /// The index of a class: a whole number from 0 to below this number; any other number is missing.
    Class(u32),
}

impl LabelKind {
    /// The bounds of the label.
    pub fn bounds(self) -> (f64, f64) {
        match self {
            Self::Number { low, high } => (low, high),
            Self::Truth => (0.0, 1.0),
            Self::Class(count) => (0.0, f64::from(count) - 1.0),
        }
    }

    /// The label as learners read it; `None` if it is missing.
    pub fn apply(self, value: Option<f64>) -> Option<f64> {
        let value = value.and_then(present)?;
        Some(match self {
            Self::Number { low, high } => value.clamp(low, high),
            Self::Truth => f64::from(u8::from(value >= 0.5)),
            Self::Class(count) => {
                let fits = value.fract() == 0.0 && (0.0..f64::from(count)).contains(&value);
                return fits.then_some(value);
            }
        })
    }
}

/// Why a list of fields is not an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingError {
    /// There is no field.
    Empty,
    /// Two fields have one name.
    Name,
    /// Bounds are not finite, or not in order.
    Bounds,
    /// The replacement of a missing number is outside the span.
    Missing,
    /// A category has no values or a duplicate, edges are not finite and ascending, or a hash has no indices.
    Categories,
    /// There are more than 2^24 category indices.
    TooManyCategories,
    /// A joined table has another size than its key, contains a number outside its span, or is the mean of a field that
    /// is not numeric.
    Table,
}

impl std::fmt::Display for EncodingError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Empty => "an encoding needs at least one field",
            Self::Name => "two fields have one name",
            Self::Bounds => "bounds must be finite, the lower one first",
            Self::Missing => "what a missing number becomes must lie in the span",
            Self::Categories => {
                "categories must be different, edges finite and ascending, and a hash needs at least one index"
            }
            Self::TooManyCategories => "there are more than 2^24 category indices",
            Self::Table => "a joined table does not fit its key, its span, or a numeric field",
        })
    }
}

impl std::error::Error for EncodingError {}

/// The serialised form of an encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// The fields; in a row numbers come before categories, each in this order.
    pub fields: Vec<Field>,
    /// The label.
    pub label: Label,
}

/// A checked encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct Encoding {
    stated: Stated,
    layout: Layout,
    /// Precomputed lookups of the keys of each field.
    prepared: Vec<[Option<Prepared>; 2]>,
}

impl From<Encoding> for Stated {
    fn from(encoding: Encoding) -> Self {
        encoding.stated
    }
}

impl TryFrom<Stated> for Encoding {
    type Error = EncodingError;

    fn try_from(stated: Stated) -> Result<Self, EncodingError> {
        Self::new(stated)
    }
}

impl Encoding {
    /// Checks the fields and computes the layout.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn new(stated: Stated) -> Result<Self, EncodingError> {
        if stated.fields.is_empty() {
            return Err(EncodingError::Empty);
        }
        let (low, high) = stated.label.kind.bounds();
        // The label is stored in single precision, so its bounds must be finite there too.
        if !((low as f32).is_finite() && (high as f32).is_finite() && low < high) {
            return Err(EncodingError::Bounds);
        }
        let mut layout = Layout::default();
        let mut prepared = Vec::with_capacity(stated.fields.len());
        let mut columns: u64 = 0;
        for (index, field) in stated.fields.iter().enumerate() {
            if stated.fields[..index].iter().any(|other| other.name == field.name) {
                return Err(EncodingError::Name);
            }
            field.kind.check(&stated.fields)?;
            prepared.push(field.kind.prepare());
            match &field.kind {
                FieldKind::Number { .. } | FieldKind::Missing { .. } | FieldKind::Join(_) => layout.numbers += 1,
                FieldKind::Beside { .. } => {}
                FieldKind::Category(_) | FieldKind::Cross(..) => {
                    layout.active += 1;
                    columns += field.kind.columns();
                }
            }
        }
        layout.columns = u32::try_from(columns)
            .ok()
            .filter(|&columns| columns <= 1 << 24)
            .ok_or(EncodingError::TooManyCategories)?;
        Ok(Self { stated, layout, prepared })
    }

    /// The layout of a row.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The serialised form.
    pub const fn stated(&self) -> &Stated {
        &self.stated
    }

    /// The same encoding with the table of a joined field; every number is clipped to the span.
    ///
    /// # Errors
    /// When there is no such joined field, or its key has another number of categories.
    pub fn with_table(&self, name: &str, means: &[f64]) -> Result<Self, EncodingError> {
        let mut stated = self.stated.clone();
        let field = stated.fields.iter_mut().find(|field| field.name == name);
        let Some(Field { kind: FieldKind::Join(join), .. }) = field else { return Err(EncodingError::Table) };
        let mean = |&mean: &f64| join.scale.apply(Some(mean)).ok_or(EncodingError::Table);
        join.table = means.iter().map(mean).collect::<Result<_, _>>()?;
        if join.table.is_empty() { Err(EncodingError::Table) } else { Self::new(stated) }
    }

    /// The joined fields: name, index among the numbers of a row, and the join.
    pub fn joins(&self) -> impl Iterator<Item = (&str, usize, &Join)> {
        self.numeric().filter_map(|(index, field)| match &field.kind {
            FieldKind::Join(join) => Some((field.name.as_str(), index, join)),
            _ => None,
        })
    }

    /// The index of a numeric field among the numbers of a row, and its scale.
    pub fn number(&self, name: &str) -> Option<(usize, Scale)> {
        self.numeric().find(|(_, field)| field.name == name).and_then(|(index, field)| match field.kind {
            FieldKind::Number { scale, .. } => Some((index, scale)),
            _ => None,
        })
    }

    /// The index of an auxiliary number, and its scale.
    pub fn beside(&self, name: &str) -> Option<(usize, Scale)> {
        self.besides().enumerate().find(|(_, (own, _))| *own == name).map(|(index, (_, scale))| (index, scale))
    }

    fn besides(&self) -> impl Iterator<Item = (&str, Scale)> {
        self.stated.fields.iter().filter_map(|field| match field.kind {
            FieldKind::Beside { scale, .. } => Some((field.name.as_str(), scale)),
            _ => None,
        })
    }

    fn numeric(&self) -> impl Iterator<Item = (usize, &Field)> {
        let numeric = |field: &&Field| {
            matches!(field.kind, FieldKind::Number { .. } | FieldKind::Missing { .. } | FieldKind::Join(_))
        };
        self.stated.fields.iter().filter(numeric).enumerate()
    }

    /// Whether a row is encoded: it has a label, and every number that has no rule for missing values.
    pub fn takes(&self, row: &impl Source) -> bool {
        let strict = |field: &Field| match &field.kind {
            FieldKind::Number { column, scale: Scale { missing: None, .. } } => {
                row.number(*column).and_then(present).is_some()
            }
            _ => true,
        };
        let label = self.stated.label;
        label.kind.apply(row.number(label.column)).is_some() && self.stated.fields.iter().all(strict)
    }

    /// Encodes the rows that it [takes](Encoding::takes), and leaves out the others. No row can make it fail.
    pub fn encode(&self, rows: impl Iterator<Item = impl Source>) -> Encoded {
        let mut encoded = Encoded::beside(self.layout, self.besides().count());
        for row in rows {
            self.push(&row, &mut encoded);
        }
        encoded
    }

    /// As [`Encoding::encode`], for units of several records. Units that it takes no record of are left out.
    pub fn encode_units<R: Source>(&self, units: impl Iterator<Item = impl Iterator<Item = R>>) -> Encoded {
        let mut encoded = Encoded::beside(self.layout, self.besides().count());
        // Even without units, rows are units.
        encoded.end_unit();
        for unit in units {
            unit.for_each(|record| self.push(&record, &mut encoded));
            encoded.end_unit();
        }
        encoded
    }

    fn push(&self, row: &impl Source, encoded: &mut Encoded) {
        if !self.takes(row) {
            return;
        }
        let Parts { numbers, indices, labels, beside } = encoded.parts_mut();
        let mut first = 0;
        for (field, prepared) in self.stated.fields.iter().zip(&self.prepared) {
            match (&field.kind, prepared) {
                // A row whose number is missing without a rule is left out above.
                (FieldKind::Number { column, scale }, _) => {
                    numbers.push(scale.apply(row.number(*column)).unwrap_or_default());
                }
                (FieldKind::Missing { column }, _) => {
                    let missing = row.number(*column).and_then(present).is_none();
                    numbers.push(f32::from(u8::from(missing)));
                }
                (FieldKind::Beside { column, scale }, _) => {
                    beside.push(scale.apply(row.number(*column)).unwrap_or(f32::NAN));
                }
                (FieldKind::Join(join), [Some(key), _]) => {
                    let key = join.key.category(key, row);
                    numbers.push(join.table.get(key as usize).copied().unwrap_or(key as f32));
                }
                (FieldKind::Category(key), [Some(prepared), _]) => {
                    indices.push(first + key.category(prepared, row));
                    first += prepared.categories;
                }
                (FieldKind::Cross(one, other), [Some(left), Some(right)]) => {
                    indices.push(first + one.category(left, row) * right.categories + other.category(right, row));
                    first += left.categories * right.categories;
                }
                _ => unreachable!("every key was prepared when the encoding was made"),
            }
        }
        let label = self.stated.label;
        labels.push(label.kind.apply(row.number(label.column)).unwrap_or_default() as f32);
    }
}

impl FieldKind {
    fn check(&self, fields: &[Field]) -> Result<(), EncodingError> {
        match self {
            Self::Number { scale, .. } | Self::Beside { scale, .. } => scale.check(),
            Self::Missing { .. } => Ok(()),
            Self::Category(key) => key.check(),
            Self::Cross(one, other) => one
                .check()
                .and_then(|()| other.check())
                .and_then(|()| if self.columns() <= 1 << 24 { Ok(()) } else { Err(EncodingError::TooManyCategories) }),
            Self::Join(join) => {
                join.key.check()?;
                join.scale.check()?;
                let known = match &join.mean {
                    Mean::Label => true,
                    Mean::Field(name) => {
                        let is_number = |kind: &Self| matches!(kind, Self::Number { .. } | Self::Beside { .. });
                        fields.iter().any(|field| field.name == *name && is_number(&field.kind))
                    }
                };
                let sized = join.table.is_empty() || join.table.len() == join.key.categories() as usize;
                let spanned = join.table.iter().all(|number| number.abs() <= 1.0);
                if known && sized && spanned { Ok(()) } else { Err(EncodingError::Table) }
            }
        }
    }

    pub(super) fn columns(&self) -> u64 {
        match self {
            Self::Category(key) => u64::from(key.categories()),
            Self::Cross(one, other) => u64::from(one.categories()) * u64::from(other.categories()),
            Self::Number { .. } | Self::Missing { .. } | Self::Beside { .. } | Self::Join(_) => 0,
        }
    }

    fn prepare(&self) -> [Option<Prepared>; 2] {
        match self {
            Self::Number { .. } | Self::Missing { .. } | Self::Beside { .. } => [None, None],
            Self::Category(key) => [Some(key.prepare()), None],
            Self::Cross(one, other) => [Some(one.prepare()), Some(other.prepare())],
            Self::Join(join) => [Some(join.key.prepare()), None],
        }
    }
}
