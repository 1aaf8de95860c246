//! The bytes of every event: what `docs/format.md` says, as code. Write and read are kept side by side.

use crate::block::{Blocks, ContextId, Lane, StreamId};
use crate::budget::{Delta, Epsilon, Rate, Sigma};
use crate::codec::{Malformed, Reader, Writer};
use crate::cost::{Amounts, Cost, Curve, Mechanism, ORDER_COUNT};
use crate::event::{Charge, Door, Event, GrantId, Request, RequestKey};
use crate::filter::{Ceiling, Component, Declared, Filter, Rule};
use crate::policy::{Context, Doors, Policy};

/// Room for most events, so that writing one allocates once.
const COMMON_SIZE: usize = 256;

impl Event {
    /// The event's canonical bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(COMMON_SIZE));
        match self {
            Self::StreamCreated { name, policy } => {
                out.byte(1);
                out.text(name);
                write_policy(&mut out, policy);
            }
            Self::BlocksAdded { stream, keys } => {
                out.byte(2);
                out.number(u64::from(stream.0));
                out.number(keys.len() as u64);
                keys.iter().for_each(|key| out.text(key));
            }
            Self::Charged(charge) => {
                out.byte(3);
                write_charge(&mut out, charge);
            }
            Self::Started { grant } => write_grant(&mut out, 4, *grant),
            Self::Cancelled { grant } => write_grant(&mut out, 5, *grant),
            Self::Released { grant, digest } => {
                write_grant(&mut out, 6, *grant);
                out.raw(digest);
            }
            Self::Burnt { grant } => write_grant(&mut out, 7, *grant),
            Self::Retired { stream, blocks } => {
                out.byte(8);
                out.number(u64::from(stream.0));
                write_blocks(&mut out, blocks);
            }
            Self::Note { kind, body } => {
                out.byte(9);
                out.text(kind);
                out.bytes(body);
            }
        }
        out.0
    }

    /// The event that is written as these bytes.
    ///
    /// # Errors
    /// When no event is.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader(bytes);
        let event = match input.byte()? {
            1 => Self::StreamCreated { name: input.text()?, policy: read_policy(&mut input)? },
            2 => Self::BlocksAdded { stream: StreamId(input.small()?), keys: input.list(Reader::text)? },
            3 => Self::Charged(Box::new(read_charge(&mut input)?)),
            4 => Self::Started { grant: GrantId(input.number()?) },
            5 => Self::Cancelled { grant: GrantId(input.number()?) },
            6 => Self::Released { grant: GrantId(input.number()?), digest: input.digest()? },
            7 => Self::Burnt { grant: GrantId(input.number()?) },
            8 => Self::Retired { stream: StreamId(input.small()?), blocks: read_blocks(&mut input)? },
            9 => Self::Note { kind: input.text()?, body: input.bytes()?.to_vec() },
            _ => return Err(Malformed),
        };
        input.end()?;
        Ok(event)
    }
}

fn write_grant(out: &mut Writer, kind: u8, grant: GrantId) {
    out.byte(kind);
    out.number(grant.0);
}

/// Ranges as the gap from the end of the one before and the length less one.
fn write_blocks(out: &mut Writer, blocks: &Blocks) {
    out.number(blocks.ranges().len() as u64);
    let mut next = 0u64;
    for range in blocks.ranges() {
        let (first, last) = (u64::from(range.first().0), u64::from(range.last().0));
        out.number(first - next);
        out.number(last - first);
        next = last + 2;
    }
}

fn read_blocks(input: &mut Reader<'_>) -> Result<Blocks, Malformed> {
    let mut next = 0u64;
    let ranges = input.list(|input| {
        let first = next.checked_add(input.number()?).ok_or(Malformed)?;
        let last = first.checked_add(input.number()?).ok_or(Malformed)?;
        next = last.checked_add(2).ok_or(Malformed)?;
        Ok((u32::try_from(first).map_err(|_| Malformed)?, u32::try_from(last).map_err(|_| Malformed)?))
    })?;
    Blocks::from_ranges(ranges).map_err(|_| Malformed)
}

fn write_charge(out: &mut Writer, charge: &Charge) {
    let request = &charge.request;
    out.raw(&request.key.bytes());
    out.number(u64::from(request.stream.0));
    out.number(u64::from(request.context.0));
    write_blocks(out, &request.blocks);
    for (cost, amounts) in request.costs.iter().zip(&charge.amounts) {
        match cost {
            None => out.byte(0),
            Some(cost) => {
                out.byte(1);
                write_cost(out, cost);
                out.number(amounts.len() as u64);
                for book in amounts {
                    out.number(book.0.len() as u64);
                    book.0.iter().for_each(|&units| out.number(units));
                }
            }
        }
    }
    match &request.door {
        Door::Enforced => out.byte(0),
        Door::Declared { author, reason } => {
            out.byte(1);
            out.text(author);
            out.text(reason);
        }
    }
    out.text(&request.purpose);
}

fn read_charge(input: &mut Reader<'_>) -> Result<Charge, Malformed> {
    let key = RequestKey::from_digest(input.digest()?);
    let stream = StreamId(input.small()?);
    let context = ContextId(input.small()?);
    let blocks = read_blocks(input)?;
    let mut costs = [None, None];
    let mut amounts = [Vec::new(), Vec::new()];
    for (cost, amounts) in costs.iter_mut().zip(&mut amounts) {
        match input.byte()? {
            0 => {}
            1 => {
                *cost = Some(read_cost(input)?);
                *amounts = input.list(|input| Ok(Amounts(input.list(Reader::number)?.into())))?;
            }
            _ => return Err(Malformed),
        }
    }
    let door = match input.byte()? {
        0 => Door::Enforced,
        1 => Door::Declared { author: input.text()?, reason: input.text()? },
        _ => return Err(Malformed),
    };
    let purpose = input.text()?;
    let request = Request { key, stream, context, blocks, costs, door, purpose };
    Ok(Charge { request, amounts })
}

fn write_cost(out: &mut Writer, cost: &Cost) {
    out.number(cost.delta().units());
    out.number(cost.parts().len() as u64);
    cost.parts().iter().for_each(|part| write_mechanism(out, part));
}

fn read_cost(input: &mut Reader<'_>) -> Result<Cost, Malformed> {
    let delta = read_delta(input)?;
    Cost::at_delta(input.list(read_mechanism)?, delta).map_err(|_| Malformed)
}

fn write_mechanism(out: &mut Writer, part: &Mechanism) {
    let mut numbers = |kind: u8, numbers: &[u64]| {
        out.byte(kind);
        numbers.iter().for_each(|&number| out.number(number));
    };
    match part {
        Mechanism::Pure { epsilon } => numbers(1, &[epsilon.units()]),
        Mechanism::Laplace { epsilon, count } => numbers(2, &[epsilon.units(), u64::from(*count)]),
        Mechanism::Gaussian { sigma, coordinates, count } => {
            numbers(3, &[sigma.units(), u64::from(*coordinates), u64::from(*count)]);
        }
        Mechanism::SampledGaussian { rate, sigma, coordinates, steps } => {
            numbers(4, &[rate.units(), sigma.units(), u64::from(*coordinates), u64::from(*steps)]);
        }
        Mechanism::Zcdp { rho } => numbers(5, &[rho.units()]),
        Mechanism::BlackBox { epsilon, delta } => numbers(6, &[epsilon.units(), delta.units()]),
        Mechanism::Curve(curve) => {
            // Zero stands for "no bound", so a bound is written one higher.
            let bound = |value: Option<Epsilon>| value.map_or(0, |value| value.units() + 1);
            numbers(7, &curve.orders.map(bound));
            out.number(bound(curve.infinite));
            out.number(curve.delta.units());
        }
    }
}

fn read_mechanism(input: &mut Reader<'_>) -> Result<Mechanism, Malformed> {
    Ok(match input.byte()? {
        1 => Mechanism::Pure { epsilon: read_epsilon(input)? },
        2 => Mechanism::Laplace { epsilon: read_epsilon(input)?, count: input.small()? },
        3 => Mechanism::Gaussian {
            sigma: read_sigma(input)?,
            coordinates: input.small()?,
            count: input.small()?,
        },
        4 => Mechanism::SampledGaussian {
            rate: Rate::from_units(input.number()?).ok_or(Malformed)?,
            sigma: read_sigma(input)?,
            coordinates: input.small()?,
            steps: input.small()?,
        },
        5 => Mechanism::Zcdp { rho: read_epsilon(input)? },
        6 => Mechanism::BlackBox { epsilon: read_epsilon(input)?, delta: read_delta(input)? },
        7 => {
            let mut orders = [None; ORDER_COUNT];
            for value in &mut orders {
                *value = read_bound(input)?;
            }
            let (infinite, delta) = (read_bound(input)?, read_delta(input)?);
            Mechanism::Curve(Box::new(Curve { orders, infinite, delta }))
        }
        _ => return Err(Malformed),
    })
}

fn read_epsilon(input: &mut Reader<'_>) -> Result<Epsilon, Malformed> {
    Epsilon::from_units(input.number()?).ok_or(Malformed)
}

fn read_bound(input: &mut Reader<'_>) -> Result<Option<Epsilon>, Malformed> {
    match input.number()?.checked_sub(1) {
        None => Ok(None),
        Some(units) => Epsilon::from_units(units).map(Some).ok_or(Malformed),
    }
}

fn read_delta(input: &mut Reader<'_>) -> Result<Delta, Malformed> {
    Delta::from_units(input.number()?).ok_or(Malformed)
}

fn read_sigma(input: &mut Reader<'_>) -> Result<Sigma, Malformed> {
    Sigma::from_units(input.number()?).ok_or(Malformed)
}

fn write_policy(out: &mut Writer, policy: &Policy) {
    out.number(policy.contexts().len() as u64);
    for context in policy.contexts() {
        out.text(&context.name);
        write_filter(out, &context.filter);
    }
    match policy.joint() {
        None => out.byte(0),
        Some(filter) => {
            out.byte(1);
            write_filter(out, filter);
        }
    }
    out.byte(match policy.doors() {
        Doors::EnforcedOnly => 0,
        Doors::DeclaredToo => 1,
    });
}

fn read_policy(input: &mut Reader<'_>) -> Result<Policy, Malformed> {
    let contexts = input.list(|input| Ok(Context { name: input.text()?, filter: read_filter(input)? }))?;
    let joint = match input.byte()? {
        0 => None,
        1 => Some(read_filter(input)?),
        _ => return Err(Malformed),
    };
    let doors = match input.byte()? {
        0 => Doors::EnforcedOnly,
        1 => Doors::DeclaredToo,
        _ => return Err(Malformed),
    };
    Policy::with_contexts(contexts, joint, doors).map_err(|_| Malformed)
}

const RULES: [Rule; 6] =
    [Rule::Basic, Rule::Strong, Rule::Whitehouse, Rule::Rogers, Rule::Renyi, Rule::Fixed];

fn write_filter(out: &mut Writer, filter: &Filter) {
    let rule = RULES.iter().position(|&rule| rule == filter.rule()).unwrap_or(RULES.len());
    out.byte(rule as u8);
    out.number(filter.ceiling().epsilon.units());
    out.number(filter.ceiling().delta.units());
    out.number(filter.caps().len() as u64);
    for (component, &cap) in filter.components().iter().zip(filter.caps()) {
        let (kind, place) = match *component {
            Component::Epsilon => (0, None),
            Component::Delta => (1, None),
            Component::Rho => (2, None),
            Component::Squares => (3, None),
            Component::Mean => (4, None),
            Component::Order(place) => (5, Some(u64::from(place))),
            Component::Infinite => (6, None),
            Component::Declaration(place) => (7, Some(u64::from(place))),
        };
        out.byte(kind);
        place.into_iter().for_each(|place| out.number(place));
        out.number(cap);
    }
    out.number(filter.required() as u64);
    out.number(filter.declared().len() as u64);
    for declared in filter.declared() {
        write_blocks(out, &declared.blocks);
        out.byte(declared.lane.index() as u8);
        write_cost(out, &declared.cost);
        out.number(u64::from(declared.times));
    }
}

fn read_filter(input: &mut Reader<'_>) -> Result<Filter, Malformed> {
    let rule = *RULES.get(usize::from(input.byte()?)).ok_or(Malformed)?;
    let ceiling = Ceiling { epsilon: read_epsilon(input)?, delta: read_delta(input)? };
    let caps = input.list(|input| {
        let component = match input.byte()? {
            0 => Component::Epsilon,
            1 => Component::Delta,
            2 => Component::Rho,
            3 => Component::Squares,
            4 => Component::Mean,
            5 => Component::Order(u8::try_from(input.number()?).map_err(|_| Malformed)?),
            6 => Component::Infinite,
            7 => Component::Declaration(input.small()?),
            _ => return Err(Malformed),
        };
        Ok((component, input.number()?))
    })?;
    let required = input.small()? as usize;
    let declared = input.list(|input| {
        let blocks = read_blocks(input)?;
        let lane = *Lane::BOTH.get(usize::from(input.byte()?)).ok_or(Malformed)?;
        Ok(Declared { blocks, lane, cost: read_cost(input)?, times: input.small()? })
    })?;
    Filter::from_stored(rule, ceiling, caps, required, declared).ok_or(Malformed)
}
