//! The SELECT of private SQL: a list of columns, a condition and grouping keys.
//!
//! Only these clauses are accepted. Every other clause is refused by its keyword, so that an unforeseen construct
//! produces an error message instead of a privacy leak.

use crate::parse::Parser;
use crate::refusal::Refusal;
use crate::syntax::{Expr, Identifier};
use crate::token::Token;

/// `SELECT ... [FROM ...] [WHERE ...] [GROUP BY ...]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The columns of the result.
    pub items: Vec<SelectItem>,
    /// The table, if one is named.
    pub from: Option<String>,
    /// The condition.
    pub condition: Option<Expr>,
    /// The grouping keys.
    pub keys: Vec<Expr>,
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectItem {
    /// An expression, with its name if it has one.
    Expression(Expr, Option<Identifier>),
    /// `*`.
    Star,
}

const SUBQUERY: &str = "subqueries are not allowed; put the condition into WHERE";
const ORDER: &str = "ordering or limiting rows by exact values is not private; groups are returned in the order of their \
                     keys, so sort and limit the result afterwards";
const FORM: &str = "only SELECT ... WHERE ... GROUP BY ... is supported";
const JOIN: &str = "a join makes the effect of one row unbounded; join the columns before rows are ingested";
const HAVING: &str = "selecting groups by exact values is not private; filter the result afterwards";
const WINDOW: &str = "a window reads several rows; group by a public key instead";
const DISTINCT: &str = "the set of values is private; count those of a public list with GROUP BY";
const TOP: &str = "limiting rows by exact values is not private; limit the result afterwards";
const UNION: &str = "send each query separately";
const KEYS: &str = "list the keys: GROUP BY key, key";
const STATEMENT: &str = "only queries are supported, such as SELECT count(*)";

/// Clauses that are refused, by their first keyword.
const REFUSED: &[(&str, &str)] = &[
    ("having", HAVING),
    ("order", ORDER),
    ("limit", ORDER),
    ("offset", ORDER),
    ("fetch", ORDER),
    ("window", WINDOW),
    ("qualify", WINDOW),
    ("union", UNION),
    ("intersect", UNION),
    ("except", UNION),
    ("join", JOIN),
    ("inner", JOIN),
    ("left", JOIN),
    ("right", JOIN),
    ("full", JOIN),
    ("cross", JOIN),
    ("natural", JOIN),
];

/// Parses a SELECT.
///
/// # Errors
/// When the text is too large, is not a SELECT, or has an unsupported clause.
pub fn parse_select(text: &str) -> Result<Select, Refusal> {
    let mut parser = Parser::new(text)?;
    expect_select(&mut parser)?;
    let items = items(&mut parser)?;
    let from = if parser.take_word("from") { Some(table(&mut parser)?) } else { None };
    refused_clause(&parser)?;
    let condition = if parser.take_word("where") { Some(parser.expression()?) } else { None };
    refused_clause(&parser)?;
    let keys = if parser.is_word("group") { keys(&mut parser)? } else { Vec::new() };
    refused_clause(&parser)?;
    if parser.take_symbol(";") && *parser.peek() != Token::End {
        return Err(Refusal::part(";", "send one query at a time"));
    }
    match parser.peek() {
        Token::End => Ok(Select { items, from, condition, keys }),
        _ => Err(parser.unexpected("the end of the query")),
    }
}

fn expect_select(parser: &mut Parser<'_>) -> Result<(), Refusal> {
    if parser.take_word("select") {
        if parser.is_word("distinct") {
            return Err(Refusal::part("DISTINCT", DISTINCT));
        }
        parser.take_word("all");
        if parser.is_word("top") && matches!(parser.peek_at(1), Token::Number(_)) {
            return Err(Refusal::part("TOP", TOP));
        }
        return Ok(());
    }
    match parser.peek() {
        Token::End => Err(Refusal::part("the query", "it is empty; write for example SELECT count(*)")),
        Token::Word(_) if parser.is_word("with") => Err(Refusal::part(parser.rest(), SUBQUERY)),
        Token::Word(word) => Err(Refusal::part(word, STATEMENT)),
        _ => Err(parser.unexpected("SELECT")),
    }
}

fn refused_clause(parser: &Parser<'_>) -> Result<(), Refusal> {
    match REFUSED.iter().find(|(keyword, _)| parser.is_word(keyword)) {
        Some((_, why)) => Err(Refusal::part(parser.rest(), why)),
        None => Ok(()),
    }
}

fn items(parser: &mut Parser<'_>) -> Result<Vec<SelectItem>, Refusal> {
    let mut items = Vec::new();
    loop {
        items.push(match parser.take_symbol("*") {
            true => SelectItem::Star,
            false => {
                let expression = parser.expression()?;
                SelectItem::Expression(expression, alias(parser)?)
            }
        });
        if !parser.take_symbol(",") {
            return Ok(items);
        }
    }
}

/// An alias, with or without `AS`.
fn alias(parser: &mut Parser<'_>) -> Result<Option<Identifier>, Refusal> {
    let named = parser.take_word("as");
    let keyword = ["from", "where", "group", "into"].iter().any(|word| parser.is_word(word))
        || REFUSED.iter().any(|(word, _)| parser.is_word(word));
    match parser.peek().clone() {
        Token::Word(word) if named || !keyword => {
            parser.advance();
            Ok(Some(Identifier { name: word.to_lowercase(), quoted: false }))
        }
        Token::Quoted(name) => {
            parser.advance();
            Ok(Some(Identifier { name, quoted: true }))
        }
        _ if named => Err(parser.unexpected("a name")),
        _ => Ok(None),
    }
}

fn table(parser: &mut Parser<'_>) -> Result<String, Refusal> {
    let rest = parser.rest();
    let name = match parser.advance() {
        Token::Word(word) => word.to_lowercase(),
        Token::Quoted(name) => name,
        Token::Symbol("(") => return Err(Refusal::part(rest, SUBQUERY)),
        _ => return Err(Refusal::part(rest, FORM)),
    };
    match parser.peek() {
        Token::Symbol(",") => Err(Refusal::part("FROM", "rows of several tables cannot be joined; query one stream")),
        Token::Symbol("(" | ".") => Err(Refusal::part(rest, "write FROM and the stream's name, or leave FROM out")),
        _ => Ok(name),
    }
}

fn keys(parser: &mut Parser<'_>) -> Result<Vec<Expr>, Refusal> {
    let rest = parser.rest();
    parser.advance();
    if !parser.take_word("by") {
        return Err(parser.unexpected("BY"));
    }
    if ["all", "rollup", "cube", "grouping"].iter().any(|word| parser.is_word(word)) {
        return Err(Refusal::part(rest, KEYS));
    }
    let mut keys = Vec::new();
    loop {
        keys.push(parser.expression()?);
        if !parser.take_symbol(",") {
            return Ok(keys);
        }
    }
}
