//! The decision: may this request be charged, and if not, why exactly.
//!
//! Reads the ledger and changes nothing. Its answer depends on the request, the policy and earlier
//! charges alone, so a refusal tells nothing about a row.

use crate::block::{BlockId, Lane, StreamId};
use crate::cost::{Amounts, Cost};
use crate::event::{Charge, Door, GrantId, Request};
use crate::filter::Filter;
use crate::ledger::{Ledger, Stream};
use crate::refusal::{Book, Refusal, Shortfall};

/// What the ledger says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It fits, and comes to these amounts: for each lane, in each book.
    Admitted([Vec<Amounts>; 2]),
    /// The same request was charged before under the same key; nothing new happens.
    Repeated(GrantId),
    /// The key was charged before, and the grant waits no longer: what it was charged for is in the log.
    Known(GrantId),
    /// It does not.
    Refused(Refusal),
}

impl Ledger {
    /// Decides a request.
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

    /// Whether a charge that says it was admitted could have been, at the amounts it holds.
    ///
    /// Prices are not computed again: they were decided once and are part of the log.
    pub(crate) fn stands(&self, charge: &Charge) -> bool {
        let Ok(stream) = self.check_names(&charge.request) else { return false };
        self.is_shaped(charge) && self.check_ceilings(stream, &charge.request, &charge.amounts).is_ok()
    }

    /// Whether a charge names a book and blocks that exist and has a number for each component.
    pub(crate) fn is_shaped(&self, charge: &Charge) -> bool {
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

    /// Everything about a request that is not a matter of amounts.
    fn check_names(&self, request: &Request) -> Result<&Stream, Refusal> {
        let stream = self.stream(request.stream).ok_or(Refusal::UnknownStream)?;
        let policy = stream.policy();
        if policy.contexts().len() <= request.context.0 as usize {
            return Err(Refusal::UnknownContext);
        }
        if request.costs.iter().all(Option::is_none) {
            return Err(Refusal::NoCost);
        }
        if !policy.opens(&request.door) {
            return Err(Refusal::DoorClosed);
        }
        let vouched = |cost: &Option<Cost>| cost.as_ref().is_some_and(|cost| !cost.is_enforceable());
        if request.door == Door::Enforced
            && let Some(place) = request.costs.iter().position(vouched)
        {
            return Err(Refusal::NotEnforceable(Lane::BOTH[place]));
        }
        if let Some(block) = stream.first_unknown(&request.blocks) {
            return Err(Refusal::UnknownBlock(block));
        }
        stream.first_retired(&request.blocks).map_or(Ok(stream), |block| Err(Refusal::RetiredBlock(block)))
    }

    fn check_ceilings(&self, stream: &Stream, request: &Request, amounts: &[Vec<Amounts>; 2]) -> Result<(), Refusal> {
        let books = stream.policy().books(request.context).ok_or(Refusal::UnknownContext)?;
        for (lane, amounts) in Lane::BOTH.into_iter().zip(amounts) {
            for ((book, filter), asked) in books.clone().zip(amounts) {
                for range in request.blocks.ranges() {
                    let cells = stream.cells(book, lane, filter.caps().len(), range.places());
                    if let Some(past) = filter.first_short(cells, asked) {
                        let block = BlockId(range.first().0 + past as u32);
                        return Err(self.shortfall(stream, request, (book, filter), lane, block, asked));
                    }
                }
            }
        }
        Ok(())
    }

    fn shortfall(
        &self, stream: &Stream, request: &Request, (book, filter): (usize, &Filter), lane: Lane, block: BlockId,
        asked: &Amounts,
    ) -> Refusal {
        let width = filter.caps().len();
        let at = block.0 as usize;
        let cell = stream.cells(book, lane, width, at..at + 1);
        let place = filter.binding(cell, asked);
        let reserved = self.reserved(request.stream, book, lane, block, place);
        let own = stream.policy().contexts().get(book).map(|context| Book::Context(context.name.clone()));
        Refusal::Ceiling(Box::new(Shortfall {
            block,
            key: stream.block_keys().get(at).cloned().unwrap_or_default(),
            lane,
            book: own.unwrap_or(Book::Joint),
            rule: filter.rule(),
            component: filter.components()[place],
            asked: u128::from(asked.0[place]),
            spent: cell[place] - reserved,
            reserved,
            left: u128::from(filter.caps()[place]).saturating_sub(cell[place]),
        }))
    }

    /// What charges that have not started hold of one number of a lane of a block.
    fn reserved(&self, stream: StreamId, book: usize, lane: Lane, block: BlockId, place: usize) -> u128 {
        let charges = self.waiting().filter_map(|grant| self.charge(grant));
        let here = charges.filter(|charge| charge.request.stream == stream && charge.request.blocks.contains(block));
        here.flat_map(|charge| {
            let books = self.stream(stream).and_then(|stream| stream.policy().books(charge.request.context));
            books.into_iter().flatten().zip(&charge.amounts[lane.index()])
        })
        .filter(|((held, _), _)| *held == book)
        .map(|(_, Amounts(amounts))| u128::from(amounts[place]))
        .sum()
    }
}

fn price(stream: &Stream, request: &Request) -> Result<[Vec<Amounts>; 2], Refusal> {
    let books = stream.policy().books(request.context).ok_or(Refusal::UnknownContext)?;
    let mut amounts = [Vec::new(), Vec::new()];
    for lane in Lane::BOTH {
        let Some(cost) = &request.costs[lane.index()] else { continue };
        for (_, filter) in books.clone() {
            let asked = filter.price(cost, lane, &request.blocks);
            amounts[lane.index()].push(asked.map_err(|reason| Refusal::Unpriced(lane, reason))?);
        }
    }
    Ok(amounts)
}
