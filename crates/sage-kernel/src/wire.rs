//! The encoding of every event, as specified in `docs/reference/log-format.md`.
//!
//! Each type lists its fields once, in order; encoding and decoding follow from that list. A type with an invariant must
//! never be decoded except through the constructor that checks it.

use crate::block::{Blocks, ContextId, Lane, StreamId};
use crate::budget::{Delta, Epsilon, Rate, Sigma};
use crate::codec::{MalformedBytes, Reader, Writer};
use crate::cost::{Amounts, Cost, Curve, Mechanism};
use crate::event::{AccessMode, Charge, Event, GrantId, Request, RequestKey};
use crate::filter::{Ceiling, Component, DeclaredQuery, Filter, Rule};
use crate::ledger::{Entry, GrantState};
use crate::policy::{AccessModes, Context, Policy};

/// The initial capacity in bytes, enough for most events.
const COMMON_SIZE: usize = 256;

impl Event {
    /// The event's canonical bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(COMMON_SIZE));
        self.put(&mut out);
        // Copied to the exact size, because the record would keep the unused capacity.
        out.0.as_slice().into()
    }

    /// Decodes an event.
    ///
    /// # Errors
    /// When the bytes are not the canonical encoding of an event.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedBytes> {
        let mut input = Reader(bytes);
        let event = Self::get(&mut input)?;
        input.end()?;
        Ok(event)
    }
}

pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Writer);
    fn get(input: &mut Reader<'_>) -> Result<Self, MalformedBytes>;
}

/// Encodes the fields in the given order.
macro_rules! parts {
    ($($type:ident { $($field:tt),* })*) => { $(
        impl Wire for $type {
            fn put(&self, out: &mut Writer) {
                $(self.$field.put(out);)*
            }
            fn get(input: &mut Reader<'_>) -> Result<Self, MalformedBytes> {
                Ok(Self { $($field: Wire::get(input)?),* })
            }
        }
    )* };
}

/// Encodes the variant as a byte, then its fields in the given order.
macro_rules! one_of {
    ($($type:ident { $($tag:literal = $variant:ident { $($field:tt: $name:ident),* })* })*) => { $(
        impl Wire for $type {
            fn put(&self, out: &mut Writer) {
                match self {
                    $(Self::$variant { $($field: $name),* } => {
                        out.byte($tag);
                        $($name.put(out);)*
                    })*
                }
            }
            fn get(input: &mut Reader<'_>) -> Result<Self, MalformedBytes> {
                Ok(match input.byte()? {
                    $($tag => Self::$variant { $($field: Wire::get(input)?),* },)*
                    _ => return Err(MalformedBytes),
                })
            }
        }
    )* };
}

/// Encodes and decodes a type with the given expressions; decoding can fail.
macro_rules! through {
    ($([$($generics:tt)*] $type:ty: |$value:ident, $out:ident| $write:expr, |$input:ident| $read:expr;)*) => { $(
        impl<$($generics)*> Wire for $type {
            fn put(&self, $out: &mut Writer) {
                let $value = self;
                $write;
            }
            fn get($input: &mut Reader<'_>) -> Result<Self, MalformedBytes> {
                $read.ok_or(MalformedBytes)
            }
        }
    )* };
}

one_of! {
    Event {
        1 = StreamCreated { name: name, policy: policy }
        2 = BlocksAdded { stream: stream, keys: keys }
        3 = Charged { 0: charge }
        4 = Started { grant: grant }
        5 = Cancelled { grant: grant }
        6 = Released { grant: grant, digest: digest }
        7 = Burnt { grant: grant }
        8 = Retired { stream: stream, blocks: blocks }
        9 = Note { kind: kind, body: body }
        10 = PolicyChanged { stream: stream, policy: policy, approvals: approvals }
        11 = Snapshot { digest: digest }
    }
    GrantState {
        0 = Charged {}
        1 = Started {}
        2 = Cancelled {}
        3 = Released { 0: digest }
        4 = Burnt {}
    }
    AccessMode {
        0 = Enforced {}
        1 = Attested { author: author, reason: reason }
    }
    AccessModes {
        0 = EnforcedOnly {}
        1 = AttestedToo {}
    }
    Lane {
        0 = Train {}
        1 = Test {}
    }
    Mechanism {
        1 = Pure { epsilon: epsilon }
        2 = Laplace { epsilon: epsilon, count: count }
        3 = Gaussian { sigma: sigma, coordinates: coordinates, count: count }
        4 = SampledGaussian { rate: rate, sigma: sigma, coordinates: coordinates, steps: steps }
        5 = Zcdp { rho: rho }
        6 = BlackBox { epsilon: epsilon, delta: delta }
        7 = Curve { 0: curve }
    }
    Rule {
        0 = Basic {}
        1 = Strong {}
        2 = Renyi {}
        3 = Fixed {}
    }
    Component {
        0 = Epsilon {}
        1 = Delta {}
        2 = Rho {}
        3 = Order { 0: index }
        4 = Infinite {}
        5 = Declaration { 0: index }
    }
}

parts! {
    StreamId { 0 }
    ContextId { 0 }
    GrantId { 0 }
    Amounts { 0 }
    Request { key, stream, context, blocks, costs, access, purpose }
    Charge { request, amounts }
    Entry { id, key, state }
    Curve { orders, infinite, delta }
    Context { name, filter }
    Ceiling { epsilon, delta }
    DeclaredQuery { blocks, lane, cost, times }
}

through! {
    [] u64: |value, out| out.number(*value), |input| Some(input.number()?);
    [] u32: |value, out| out.number(u64::from(*value)), |input| Self::try_from(input.number()?).ok();
    [] Epsilon: |value, out| out.number(value.units()), |input| Self::from_units(input.number()?);
    [] Delta: |value, out| out.number(value.units()), |input| Self::from_units(input.number()?);
    [] Sigma: |value, out| out.number(value.units()), |input| Self::from_units(input.number()?);
    [] Rate: |value, out| out.number(value.units()), |input| Self::from_units(input.number()?);
    [] String: |text, out| out.bytes(text.as_bytes()),
        |input| std::str::from_utf8(input.bytes()?).ok().map(str::to_owned);
    [] Vec<u8>: |bytes, out| out.bytes(bytes), |input| Some(input.bytes()?.to_vec());
    [] [u8; 32]: |bytes, out| out.raw(bytes), |input| input.raw(32)?.try_into().ok();
    [] RequestKey: |key, out| out.raw(&key.bytes()), |input| Some(Self::from_digest(Wire::get(input)?));
    [] Blocks: |blocks, out| gaps(blocks).put(out), |input| from_gaps(Wire::get(input)?);
    [] Cost: |cost, out| {
        cost.delta().put(out);
        put_list(cost.parts(), out);
    }, |input| {
        let delta = Wire::get(input)?;
        Self::at_delta(Wire::get(input)?, delta).ok()
    };
    [] Policy: |policy, out| {
        put_list(policy.contexts(), out);
        policy.joint().cloned().put(out);
        policy.access_modes().put(out);
    }, |input| Self::with_contexts(Wire::get(input)?, Wire::get(input)?, Wire::get(input)?).ok();
    [] Filter: |filter, out| {
        filter.rule().put(out);
        filter.ceiling().put(out);
        filter.components().iter().copied().zip(filter.caps().iter().copied()).collect::<Vec<_>>().put(out);
        put_list(filter.declared(), out);
    }, |input| Self::from_stored(Wire::get(input)?, Wire::get(input)?, Wire::get(input)?, Wire::get(input)?);
    [T: Wire] Vec<T>: |items, out| put_list(items, out), |input| Some(input.list(T::get)?);
    [T: Wire] Box<T>: |value, out| (**value).put(out), |input| Some(Self::new(T::get(input)?));
    [T: Wire] Option<T>: |value, out| {
        out.byte(u8::from(value.is_some()));
        value.iter().for_each(|value| value.put(out));
    }, |input| match input.byte()? {
        0 => Some(None),
        1 => Some(Some(T::get(input)?)),
        _ => None,
    };
    [T: Wire, const N: usize] [T; N]: |items, out| items.iter().for_each(|item| item.put(out)), |input| {
        (0..N).map(|_| T::get(input)).collect::<Result<Vec<T>, MalformedBytes>>()?.try_into().ok()
    };
    [A: Wire, B: Wire] (A, B): |pair, out| {
        pair.0.put(out);
        pair.1.put(out);
    }, |input| Some((A::get(input)?, B::get(input)?));
}

fn put_list<T: Wire>(items: &[T], out: &mut Writer) {
    out.number(items.len() as u64);
    items.iter().for_each(|item| item.put(out));
}

/// Each range as a pair: its start less the end of the range before less two, and its length less one.
fn gaps(blocks: &Blocks) -> Vec<(u64, u64)> {
    let mut next = 0;
    let ranges = blocks.ranges().iter().map(|range| {
        let (first, last) = (u64::from(range.first().0), u64::from(range.last().0));
        let gap = first - next;
        next = last + 2;
        (gap, last - first)
    });
    ranges.collect()
}

fn from_gaps(gaps: Vec<(u64, u64)>) -> Option<Blocks> {
    let mut next = 0u64;
    let mut ranges = Vec::with_capacity(gaps.len());
    for (gap, length) in gaps {
        let first = next.checked_add(gap)?;
        let last = first.checked_add(length)?;
        next = last.checked_add(2)?;
        ranges.push((u32::try_from(first).ok()?, u32::try_from(last).ok()?));
    }
    Blocks::from_ranges(ranges).ok()
}
