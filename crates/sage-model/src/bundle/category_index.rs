//! The category index of a row in a field: categories, integers, buckets, hashes and crosses.
//!
//! Every row has exactly one index in a field, so each kind has a fallback index for all other values.

use serde::{Deserialize, Serialize};

use super::graph::{GraphRefusal, Outline, refused};
use crate::formula::Kind;
use sage_learn::encode::PRIME;

/// The most categories of a field.
const MOST_CATEGORIES: u64 = 1 << 24;
/// The most fields of a cross, and the deepest nesting of crosses and hashes.
const MOST_CROSSED: usize = 8;
const DEEPEST: usize = 4;
/// The most categories or edges of a field.
const MOST_LISTED: usize = 1 << 20;

/// How the category index of a row is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CategoryIndex {
    /// The index of a text in a list.
    Category {
        /// A feature that is a column of texts.
        feature: String,
        /// The list.
        categories: Vec<String>,
        /// The index of other texts and of null, at most the length of the list.
        otherwise: u32,
    },
    /// A whole number, counted from the first.
    Index {
        /// The feature.
        feature: String,
        /// The number with index 0.
        first: i64,
        /// The number of integers that have an index.
        count: u32,
        /// The index of other numbers and of null, at most the count.
        otherwise: u32,
    },
    /// The number of edges that a number reaches.
    Bucket {
        /// The feature.
        feature: String,
        /// The edges, ascending.
        edges: Vec<f64>,
        /// The index of null and NaN, at most one more than the number of edges.
        otherwise: u32,
    },
    /// A hash of a whole number of at most 2⁵³, either sign.
    Hash {
        /// The feature.
        feature: String,
        /// The seed.
        seed: u64,
        /// The number of hash values.
        count: u32,
        /// The index of other numbers and of null, at most the count.
        otherwise: u32,
    },
    /// A cross: an index for each combination, the last part varying fastest.
    Cross(Vec<CategoryIndex>),
    /// A hash of an index, for crosses with too many combinations.
    Folded {
        /// The index.
        of: Box<CategoryIndex>,
        /// The seed.
        seed: u64,
        /// The number of indices after hashing.
        count: u32,
    },
}

impl CategoryIndex {
    /// The number of indices.
    pub fn categories(&self) -> u64 {
        let with_fallback = |listed: u64, otherwise: u32| listed.max(u64::from(otherwise) + 1);
        match self {
            Self::Category { categories, otherwise, .. } => with_fallback(categories.len() as u64, *otherwise),
            Self::Index { count, otherwise, .. } | Self::Hash { count, otherwise, .. } => {
                with_fallback(u64::from(*count), *otherwise)
            }
            Self::Bucket { edges, otherwise, .. } => with_fallback(edges.len() as u64 + 1, *otherwise),
            Self::Cross(parts) => parts.iter().map(Self::categories).fold(1, u64::saturating_mul),
            Self::Folded { count, .. } => u64::from(*count),
        }
    }

    pub(super) fn check(&self, outline: &Outline) -> Result<(), GraphRefusal> {
        self.check_at(outline, 1)?;
        if self.categories() > MOST_CATEGORIES {
            return Err(refused("field", "it has more than 2^24 categories; hash it into fewer"));
        }
        Ok(())
    }

    fn check_at(&self, outline: &Outline, depth: usize) -> Result<(), GraphRefusal> {
        let (listed, otherwise) = match self {
            Self::Category { feature, categories, otherwise } => {
                outline.require_kind(feature, Kind::Text)?;
                let distinct: std::collections::BTreeSet<&String> = categories.iter().collect();
                if distinct.len() != categories.len() {
                    return Err(refused(feature, "a category is listed twice"));
                }
                (categories.len() as u64, *otherwise)
            }
            Self::Index { feature, first, count, otherwise } => {
                outline.require_kind(feature, Kind::Number)?;
                if first.unsigned_abs() > 1 << 52 {
                    return Err(refused(feature, "the first whole number is beyond 2^52"));
                }
                (u64::from(*count), *otherwise)
            }
            Self::Hash { feature, count, otherwise, .. } => {
                outline.require_kind(feature, Kind::Number)?;
                (u64::from(*count), *otherwise)
            }
            Self::Bucket { feature, edges, otherwise } => {
                outline.require_kind(feature, Kind::Number)?;
                let ascending = edges.windows(2).all(|pair| pair[0] < pair[1]);
                if !ascending || !edges.iter().all(|edge| edge.is_finite()) {
                    return Err(refused(feature, "edges must be finite and ascending"));
                }
                (edges.len() as u64 + 1, *otherwise)
            }
            Self::Cross(parts) => return check_cross(parts, outline, depth),
            Self::Folded { of, count, .. } => {
                if *count == 0 || u64::from(*count) >= PRIME || of.categories() > 1 << 53 || depth > DEEPEST {
                    return Err(refused("fold", "it maps at most 2^53 categories to 1 to 2^24, nested at most 4 deep"));
                }
                return of.check_at(outline, depth + 1);
            }
        };
        if listed == 0 || listed > MOST_LISTED.max(MOST_CATEGORIES as usize) as u64 || u64::from(otherwise) > listed {
            return Err(refused("field", "it has no categories or too many, or its fallback index is out of range"));
        }
        Ok(())
    }
}

fn check_cross(parts: &[CategoryIndex], outline: &Outline, depth: usize) -> Result<(), GraphRefusal> {
    if !(2..=MOST_CROSSED).contains(&parts.len()) || depth > DEEPEST {
        return Err(refused("cross", "it joins 2 to 8 fields, nested at most 4 deep"));
    }
    parts.iter().try_for_each(|part| part.check_at(outline, depth + 1))?;
    let combinations = parts.iter().map(CategoryIndex::categories).fold(1, u64::saturating_mul);
    if combinations > 1 << 53 { Err(refused("cross", "it has more than 2^53 combinations")) } else { Ok(()) }
}
