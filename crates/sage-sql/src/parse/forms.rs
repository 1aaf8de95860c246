//! Forms with special syntax: CASE, CAST, EXTRACT, SUBSTRING, TRIM, POSITION, and calls with aggregate clauses.

use super::{Parser, Tree, with_height};
use crate::refusal::Refusal;
use crate::syntax::precedence as level;
use crate::syntax::{Aggregation, Case, Expr, TypeName};
use crate::token::Token;

impl Parser<'_> {
    pub(super) fn case(&mut self) -> Result<Tree, Refusal> {
        self.advance();
        let mut heights = Vec::new();
        let mut part = |parser: &mut Self| {
            let tree = parser.operand(0)?;
            heights.push(tree.height);
            Ok::<Expr, Refusal>(tree.expr)
        };
        let operand = if self.is_word("when") { None } else { Some(Box::new(part(self)?)) };
        let mut branches = Vec::new();
        while self.take_word("when") {
            let when = part(self)?;
            self.expect_word("THEN")?;
            branches.push((when, part(self)?));
        }
        if branches.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = if self.take_word("else") { Some(Box::new(part(self)?)) } else { None };
        self.expect_word("END")?;
        with_height(&heights, Expr::Case(Case { operand, branches, otherwise }))
    }

    /// Consumes the name of a form and its opening parenthesis.
    fn open(&mut self) -> Result<(), Refusal> {
        self.advance();
        self.expect_symbol("(")
    }

    pub(super) fn cast(&mut self) -> Result<Tree, Refusal> {
        self.open()?;
        let of = self.operand(0)?;
        self.expect_word("AS")?;
        let to = self.type_name(&of.expr)?;
        self.expect_symbol(")")?;
        with_height(&[of.height], Expr::Cast(Box::new(of.expr), to))
    }

    pub(super) fn type_name(&mut self, of: &Expr) -> Result<TypeName, Refusal> {
        const TYPES: &str = "types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, VARCHAR, DATE and \
                             TIMESTAMP";
        let Token::Word(word) = self.peek().clone() else { return Err(self.unexpected("a type")) };
        let Some(to) = named_type(&word.to_lowercase()) else {
            return Err(Refusal::part(format!("CAST({of} AS {word})"), TYPES));
        };
        self.advance();
        if to == TypeName::Double {
            self.take_word("precision");
        }
        if to == TypeName::Text && self.take_symbol("(") {
            return Err(Refusal::part(format!("CAST({of} AS {word}(...))"), "write VARCHAR without a length"));
        }
        Ok(to)
    }

    pub(super) fn extract(&mut self) -> Result<Tree, Refusal> {
        self.open()?;
        let field = match self.advance() {
            Token::Word(word) => word.to_lowercase(),
            Token::Text(text) => text.to_lowercase(),
            _ => return Err(self.unexpected("a part of a time, as in extract(hour from ...)")),
        };
        self.expect_word("FROM")?;
        let of = self.operand(0)?;
        self.expect_symbol(")")?;
        with_height(&[of.height], Expr::Call("date_part".to_owned(), vec![Expr::Text(field), of.expr]))
    }

    pub(super) fn substring(&mut self) -> Result<Tree, Refusal> {
        self.open()?;
        let mut parts = vec![self.operand(0)?];
        for (keyword, plain) in [("from", ","), ("for", ",")] {
            if self.take_word(keyword) || self.take_symbol(plain) {
                parts.push(self.operand(0)?);
            }
        }
        self.expect_symbol(")")?;
        function_call("substr", parts)
    }

    pub(super) fn trim(&mut self) -> Result<Tree, Refusal> {
        self.open()?;
        let name = match () {
            () if self.take_word("leading") => "ltrim",
            () if self.take_word("trailing") => "rtrim",
            () => {
                self.take_word("both");
                "btrim"
            }
        };
        let mut parts = Vec::new();
        if !self.take_word("from") {
            parts.push(self.operand(0)?);
            if self.take_word("from") {
                parts.insert(0, self.operand(0)?);
            } else if self.take_symbol(",") {
                parts.push(self.operand(0)?);
            }
        } else {
            parts.push(self.operand(0)?);
        }
        self.expect_symbol(")")?;
        function_call(name, parts)
    }

    pub(super) fn position(&mut self) -> Result<Tree, Refusal> {
        self.open()?;
        let wanted = self.operand(level::CONCATENATION)?;
        self.expect_word("IN")?;
        let of = self.operand(0)?;
        self.expect_symbol(")")?;
        function_call("strpos", vec![of, wanted])
    }

    /// A function call with its arguments, and the clauses of an aggregate.
    pub(super) fn call(&mut self, name: String) -> Result<Tree, Refusal> {
        self.open()?;
        let distinct = self.take_word("distinct");
        let star = self.take_symbol("*");
        let mut parts = Vec::new();
        if !star && !matches!(self.peek(), Token::Symbol(")")) {
            loop {
                self.no_query_at(0)?;
                parts.push(self.operand(0)?);
                if !self.take_symbol(",") {
                    break;
                }
            }
        }
        self.expect_symbol(")")?;
        let within_group = self.clause(&["within", "group"], &["order", "by"])?;
        let filter = self.clause(&["filter"], &["where"])?;
        let windowed = self.is_word("over");
        if windowed {
            self.advance();
            self.skip_window()?;
        }
        if !(distinct || star || windowed || filter.is_some() || within_group.is_some()) {
            return function_call(&name, parts);
        }
        let mut heights: Vec<usize> = parts.iter().map(|part| part.height).collect();
        heights.extend(within_group.iter().chain(&filter).map(|part| part.height));
        let (within_group, filter) = (within_group.map(|part| part.expr), filter.map(|part| part.expr));
        let arguments = parts.into_iter().map(|part| part.expr).collect();
        let aggregation = Aggregation { name, arguments, star, distinct, filter, windowed, within_group };
        with_height(&heights, Expr::Aggregate(Box::new(aggregation)))
    }

    /// `KEYWORDS (INNER KEYWORDS expression)`, if it is next.
    fn clause(&mut self, keywords: &[&str], inner: &[&'static str]) -> Result<Option<Tree>, Refusal> {
        let next = keywords.iter().enumerate().all(|(ahead, keyword)| self.is_word_at(ahead, keyword));
        if !next {
            return Ok(None);
        }
        for _ in keywords {
            self.advance();
        }
        self.expect_symbol("(")?;
        for keyword in inner {
            self.expect_word(keyword)?;
        }
        let of = self.operand(0)?;
        self.expect_symbol(")")?;
        Ok(Some(of))
    }

    /// Skips a window specification, which the planner refuses.
    fn skip_window(&mut self) -> Result<(), Refusal> {
        if !self.take_symbol("(") {
            self.advance();
            return Ok(());
        }
        let mut open = 1;
        while open > 0 {
            match self.advance() {
                Token::Symbol("(") => open += 1,
                Token::Symbol(")") => open -= 1,
                Token::End => return Err(self.unexpected(")")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn function_call(name: &str, parts: Vec<Tree>) -> Result<Tree, Refusal> {
    let heights: Vec<usize> = parts.iter().map(|part| part.height).collect();
    with_height(&heights, Expr::Call(name.to_owned(), parts.into_iter().map(|part| part.expr).collect()))
}

fn named_type(word: &str) -> Option<TypeName> {
    Some(match word {
        "boolean" | "bool" => TypeName::Boolean,
        "tinyint" => TypeName::TinyInt,
        "smallint" => TypeName::SmallInt,
        "int" | "integer" => TypeName::Int,
        "bigint" => TypeName::BigInt,
        "real" | "float" => TypeName::Real,
        "double" => TypeName::Double,
        "varchar" | "text" | "string" | "char" => TypeName::Text,
        "date" => TypeName::Date,
        "timestamp" => TypeName::Timestamp,
        _ => return None,
    })
}
