//! Decides whether a request can be charged, and if not, gives the exact reason.
//!
//! Reads the ledger and changes nothing. The decision depends only on the request, the policy and earlier charges, so
//! a refusal reveals nothing about a row. This module must never depend on anything else.

use crate::block::{BlockId, Lane, StreamId};
use crate::cost::{Amounts, Cost};
use crate::event::{AccessMode, Charge, GrantId, Request};
use crate::filter::Filter;
use crate::ledger::{Ledger, Stream};
use crate::refusal::{Book, Refusal, Shortfall};

/// The ledger's decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request fits within all ceilings, at these amounts for each lane and book.
    Admitted([Vec<Amounts>; 2]),
    /// The same request was charged before under the same key; nothing new is charged.
    Repeated(GrantId),
    /// The key was charged before and its grant is no longer pending, so its request must be read from the log.
    Known(GrantId),
    /// The request is refused.
    Refused(Refusal),
}

impl Ledger {
    /// Decides whether the request can be charged.
    pub fn decide(&self, request: &Request) -> Decision {
        if let Some(grant) = self.grant_for(request.key) {
            return match self.charge(grant) {
                None => Decision::Known(grant),
                Some(charge) if charge.request == *request => Decision::Repeated(grant),
                Some(_) => Decision::Refused(Refusal::KeyReused(grant)),
            };
        }
        let priced = self.check_names(request).and_then(|stream| {
            let amounts = price(stream, request)?;
            self.check_ceilings(stream, request, &amounts)?;
            Ok(amounts)
        });
        priced.map_or_else(Decision::Refused, Decision::Admitted)
    }

    /// Whether a charge read from the log is admissible in this state, at the amounts it contains.
    ///
    /// Prices are not computed again: they were fixed when the request was charged and are part of the log.
    pub(crate) fn is_admissible(&self, charge: &Charge) -> bool {
        let Ok(stream) = self.check_names(&charge.request) else { return false };
        self.has_valid_shape(charge) && self.check_ceilings(stream, &charge.request, &charge.amounts).is_ok()
    }

    /// Whether the books and blocks of a charge exist and it has one amount for each component.
    pub(crate) fn has_valid_shape(&self, charge: &Charge) -> bool {
        let request = &charge.request;
        let Some(stream) = self.stream(request.stream) else { return false };
        let Some(books) = stream.policy().books(request.context) else { return false };
        let mut lanes = request.costs.iter().zip(&charge.amounts);
        stream.first_unknown(&request.blocks).is_none()
            && lanes.all(|(cost, amounts)| match cost {
                None => amounts.is_empty(),
                Some(_) => {
                    amounts.iter().map(|Amounts(own)| own.len()).eq(books.clone().map(|(_, own)| own.caps().len()))
                }
            })
    }

    /// Checks everything about a request except its amounts.
    fn check_names(&self, request: &Request) -> Result<&Stream, Refusal> {
        let stream = self.stream(request.stream).ok_or(Refusal::UnknownStream)?;
        let policy = stream.policy();
        if policy.contexts().len() <= request.context.0 as usize {
            return Err(Refusal::UnknownContext);
        }
        if request.costs.iter().all(Option::is_none) {
            return Err(Refusal::NoCost);
        }
        if !policy.admits(&request.access) {
            return Err(Refusal::AttestedNotAllowed);
        }
        let attested_only = |cost: &Option<Cost>| cost.as_ref().is_some_and(|cost| !cost.is_enforceable());
        if request.access == AccessMode::Enforced
            && let Some(index) = request.costs.iter().position(attested_only)
        {
            return Err(Refusal::NotEnforceable(Lane::BOTH[index]));
        }
        if let Some(block) = stream.first_unknown(&request.blocks) {
            return Err(Refusal::UnknownBlock(block));
        }
        stream.first_retired(&request.blocks).map_or(Ok(stream), |block| Err(Refusal::RetiredBlock(block)))
    }

    fn check_ceilings(&self, stream: &Stream, request: &Request, amounts: &[Vec<Amounts>; 2]) -> Result<(), Refusal> {
        let books = stream.policy().books(request.context).ok_or(Refusal::UnknownContext)?;
        for (lane, amounts) in Lane::BOTH.into_iter().zip(amounts) {
            for ((book, filter), requested) in books.clone().zip(amounts) {
                for range in request.blocks.ranges() {
                    let cells = stream.cells(book, lane, filter.caps().len(), range.indices());
                    if let Some(offset) = filter.first_over_cap(cells, requested) {
                        let block = BlockId(range.first().0 + offset as u32);
                        return Err(self.shortfall(stream, request, (book, filter), lane, block, requested));
                    }
                }
            }
        }
        Ok(())
    }

    fn shortfall(
        &self, stream: &Stream, request: &Request, (book, filter): (usize, &Filter), lane: Lane, block: BlockId,
        requested: &Amounts,
    ) -> Refusal {
        let width = filter.caps().len();
        let at = block.0 as usize;
        let cell = stream.cells(book, lane, width, at..at + 1);
        let index = filter.binding_component(cell, requested);
        let reserved = self.reserved(request.stream, book, lane, block, index);
        let own = stream.policy().contexts().get(book).map(|context| Book::Context(context.name.clone()));
        Refusal::Ceiling(Box::new(Shortfall {
            block,
            key: stream.block_keys().get(at).cloned().unwrap_or_default(),
            lane,
            book: own.unwrap_or(Book::Joint),
            rule: filter.rule(),
            component: filter.components()[index],
            requested: u128::from(requested.0[index]),
            spent: cell[index] - reserved,
            reserved,
            left: u128::from(filter.caps()[index]).saturating_sub(cell[index]),
        }))
    }

    /// The amount of one component that grants which have not started hold on a lane of a block.
    fn reserved(&self, stream: StreamId, book: usize, lane: Lane, block: BlockId, index: usize) -> u128 {
        let charges = self.waiting().filter_map(|grant| self.charge(grant));
        let here = charges.filter(|charge| charge.request.stream == stream && charge.request.blocks.contains(block));
        here.flat_map(|charge| {
            let books = self.stream(stream).and_then(|stream| stream.policy().books(charge.request.context));
            books.into_iter().flatten().zip(&charge.amounts[lane.index()])
        })
        .filter(|((held, _), _)| *held == book)
        .map(|(_, Amounts(amounts))| u128::from(amounts[index]))
        .sum()
    }
}

fn price(stream: &Stream, request: &Request) -> Result<[Vec<Amounts>; 2], Refusal> {
    let books = stream.policy().books(request.context).ok_or(Refusal::UnknownContext)?;
    let mut amounts = [Vec::new(), Vec::new()];
    for lane in Lane::BOTH {
        let Some(cost) = &request.costs[lane.index()] else { continue };
        for (_, filter) in books.clone() {
            let requested = filter.price(cost, lane, &request.blocks);
            amounts[lane.index()].push(requested.map_err(|reason| Refusal::Unpriced(lane, reason))?);
        }
    }
    Ok(amounts)
}
