//! The parser: precedence climbing over the tokens.
//!
//! There is no backtracking, so the time is linear in the length of the text. The depth of the recursion and the height
//! of the tree are limited, so that neither the parser nor a traversal of the tree can exhaust the stack.

mod forms;

use crate::refusal::Refusal;
use crate::syntax::precedence as level;
use crate::syntax::{BinaryOperator, Expr, Identifier, IsTest, TypeName, UnaryOperator};
use crate::token::{Spanned, Token, tokens};

/// The maximum nesting depth of parentheses, calls and CASEs.
const DEEPEST: usize = 60;
/// The maximum height of a tree: the tree of a sum is as high as its number of terms.
const HIGHEST: usize = 200;

/// Parses an expression.
///
/// # Errors
/// When the text is too large, is not an expression, or contains a query.
pub fn parse(text: &str) -> Result<Expr, Refusal> {
    let mut parser = Parser::new(text)?;
    let expression = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expression),
        _ => Err(parser.unexpected("the end of the expression")),
    }
}

/// An expression with the height of its tree.
pub(crate) struct Tree {
    expr: Expr,
    height: usize,
}

pub(crate) struct Parser<'text> {
    text: &'text str,
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
}

impl<'text> Parser<'text> {
    pub(crate) fn new(text: &'text str) -> Result<Self, Refusal> {
        Ok(Self { text, tokens: tokens(text)?, at: 0, depth: 0 })
    }

    pub(crate) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |spanned| &spanned.token)
    }

    pub(crate) fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Whether the next token is this keyword.
    pub(crate) fn is_word(&self, keyword: &str) -> bool {
        self.is_word_at(0, keyword)
    }

    fn is_word_at(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_at(ahead), Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Consumes the keyword if it is next.
    pub(crate) fn take_word(&mut self, keyword: &str) -> bool {
        let found = self.is_word(keyword);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(own) if *own == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: &'static str) -> Result<(), Refusal> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    fn expect_word(&mut self, keyword: &'static str) -> Result<(), Refusal> {
        if self.take_word(keyword) { Ok(()) } else { Err(self.unexpected(keyword)) }
    }

    /// A refusal that names the expected and the found token and the text before it.
    pub(crate) fn unexpected(&self, expected: &str) -> Refusal {
        const SHOWN: usize = 60;
        let start = self.tokens.get(self.at).map_or(self.text.len(), |spanned| spanned.start);
        let before = &self.text[..start];
        let tail: String = before.chars().rev().take(SHOWN).collect::<Vec<char>>().into_iter().rev().collect();
        let found = self.peek().display();
        match tail.trim() {
            "" => Refusal::unreadable(format!("expected {expected}, found: {found}")),
            tail => Refusal::unreadable(format!("expected {expected}, found: {found}, after `{tail}`")),
        }
    }

    /// The text from the next token on.
    pub(crate) fn rest(&self) -> &'text str {
        self.tokens.get(self.at).map_or("", |spanned| &self.text[spanned.start..])
    }

    pub(crate) fn expression(&mut self) -> Result<Expr, Refusal> {
        self.operand(0).map(|tree| tree.expr)
    }

    /// Parses an expression whose operators have at least this precedence.
    fn operand(&mut self, least: u8) -> Result<Tree, Refusal> {
        if self.depth >= DEEPEST {
            return Err(Refusal::TooLarge);
        }
        self.depth += 1;
        let mut tree = self.prefix()?;
        while let Some(binds) = self.infix_precedence().filter(|binds| *binds >= least) {
            tree = self.infix(tree, binds)?;
        }
        self.depth -= 1;
        Ok(tree)
    }

    fn prefix(&mut self) -> Result<Tree, Refusal> {
        match self.peek() {
            Token::Symbol("-") => self.unary(UnaryOperator::Minus, level::SIGN),
            Token::Symbol("+") => self.unary(UnaryOperator::Plus, level::SIGN),
            Token::Symbol("(") => self.parenthesised(),
            Token::Symbol("[" | "{") => Err(self.unexpected("an expression that is not an array or a map")),
            Token::Number(_) | Token::Text(_) | Token::Quoted(_) => self.literal(),
            Token::Word(_) => self.word(),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn unary(&mut self, operator: UnaryOperator, binds: u8) -> Result<Tree, Refusal> {
        self.advance();
        let of = self.operand(binds)?;
        with_height(&[of.height], Expr::Unary(operator, Box::new(of.expr)))
    }

    fn parenthesised(&mut self) -> Result<Tree, Refusal> {
        self.no_query_at(1)?;
        self.advance();
        let inner = self.operand(0)?;
        self.expect_symbol(")")?;
        Ok(inner)
    }

    /// Refuses a query that starts `ahead` tokens after the current one.
    fn no_query_at(&self, ahead: usize) -> Result<(), Refusal> {
        let begins = ["select", "with", "values", "table"].iter().any(|keyword| self.is_word_at(ahead, keyword));
        // `table` and `values` can also be columns: those are followed by an operator, not by a word.
        let followed = matches!(self.peek_at(ahead + 1), Token::Symbol(",") | Token::Symbol(")") | Token::End);
        if begins && !followed { Err(Refusal::subquery(self.rest())) } else { Ok(()) }
    }

    fn literal(&mut self) -> Result<Tree, Refusal> {
        let expr = match self.advance() {
            Token::Number(text) => Expr::Number(text),
            Token::Text(text) => Expr::Text(text),
            Token::Quoted(name) => return self.column(Identifier { name, quoted: true }),
            _ => return Err(self.unexpected("a literal")),
        };
        leaf(expr)
    }

    /// A column, or a name with a qualifier.
    fn column(&mut self, name: Identifier) -> Result<Tree, Refusal> {
        let mut qualified: Option<String> = None;
        while matches!(self.peek(), Token::Symbol(".")) && matches!(self.peek_at(1), Token::Word(_) | Token::Quoted(_))
        {
            self.advance();
            let own = qualified.unwrap_or_else(|| name.to_string());
            qualified = Some(format!("{own}.{}", self.advance().display()));
        }
        leaf(qualified.map_or(Expr::Column(name), Expr::Qualified))
    }

    fn word(&mut self) -> Result<Tree, Refusal> {
        let Token::Word(word) = self.peek().clone() else { return Err(self.unexpected("an expression")) };
        let called = matches!(self.peek_at(1), Token::Symbol("("));
        let folded = word.to_lowercase();
        match folded.as_str() {
            "not" => self.unary(UnaryOperator::Not, level::NOT),
            "case" => self.case(),
            "null" | "true" | "false" => {
                self.advance();
                leaf(match folded.as_str() {
                    "null" => Expr::Null,
                    boolean => Expr::Boolean(boolean == "true"),
                })
            }
            "cast" | "try_cast" if called => self.cast(),
            "extract" if called => self.extract(),
            "substring" if called => self.substring(),
            "trim" if called => self.trim(),
            "position" if called => self.position(),
            "exists" if called => {
                self.no_query_at(2)?;
                Err(self.unexpected("an expression"))
            }
            "date" | "timestamp" if matches!(self.peek_at(1), Token::Text(_)) => {
                self.advance();
                let to = if folded == "date" { TypeName::Date } else { TypeName::Timestamp };
                match self.advance() {
                    Token::Text(text) => leaf(Expr::Typed(to, text)),
                    _ => Err(self.unexpected("a text")),
                }
            }
            "interval" if matches!(self.peek_at(1), Token::Text(_)) => {
                Err(self.unexpected("an expression without INTERVAL; compute with extract(epoch from ...)"))
            }
            reserved if RESERVED.contains(&reserved) => Err(self.unexpected("an expression")),
            _ if called => self.call(folded),
            _ => {
                self.advance();
                self.column(Identifier { name: folded, quoted: false })
            }
        }
    }

    /// The precedence of the next operator; `None` if the next token is not an operator.
    fn infix_precedence(&self) -> Option<u8> {
        match self.peek() {
            Token::Symbol("::") => Some(level::CAST),
            Token::Symbol(symbol) => binary_operator(symbol).map(BinaryOperator::precedence),
            Token::Word(word) => match word.to_lowercase().as_str() {
                "or" => Some(level::OR),
                "and" => Some(level::AND),
                "is" => Some(level::IS),
                "between" | "in" | "like" | "ilike" => Some(level::RANGE),
                "not" if ["between", "in", "like", "ilike"].iter().any(|next| self.is_word_at(1, next)) => {
                    Some(level::RANGE)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn infix(&mut self, left: Tree, binds: u8) -> Result<Tree, Refusal> {
        match self.peek().clone() {
            Token::Symbol("::") => {
                self.advance();
                let to = self.type_name(&left.expr)?;
                with_height(&[left.height], Expr::Cast(Box::new(left.expr), to))
            }
            Token::Symbol(symbol) => {
                self.advance();
                let Some(operator) = binary_operator(symbol) else { return Err(self.unexpected("an operator")) };
                for quantifier in ["any", "all", "some"] {
                    if self.is_word(quantifier) && matches!(self.peek_at(1), Token::Symbol("(")) {
                        return Err(Refusal::subquery(self.rest()));
                    }
                }
                let right = self.operand(binds + 1)?;
                let heights = [left.height, right.height];
                with_height(&heights, Expr::Binary(operator, Box::new(left.expr), Box::new(right.expr)))
            }
            _ => self.word_infix(left),
        }
    }

    fn word_infix(&mut self, left: Tree) -> Result<Tree, Refusal> {
        if self.take_word("and") {
            let right = self.operand(level::AND + 1)?;
            return append_condition(
                left,
                right,
                |expr| if let Expr::All(parts) = expr { Ok(parts) } else { Err(expr) },
                Expr::All,
            );
        }
        if self.take_word("or") {
            let right = self.operand(level::OR + 1)?;
            return append_condition(
                left,
                right,
                |expr| if let Expr::Any(parts) = expr { Ok(parts) } else { Err(expr) },
                Expr::Any,
            );
        }
        if self.take_word("is") {
            return self.is(left);
        }
        let negated = self.take_word("not");
        if self.take_word("between") {
            return self.between(left, negated);
        }
        if self.take_word("in") {
            return self.in_list(left, negated);
        }
        let case_insensitive = self.is_word("ilike");
        self.advance();
        let pattern = self.operand(level::CONCATENATION)?;
        if self.is_word("escape") {
            let part = format!("{} LIKE {} ESCAPE", left.expr, pattern.expr);
            return Err(Refusal::part(part, "the pattern of LIKE must be a literal, without ESCAPE"));
        }
        let heights = [left.height, pattern.height];
        let (of, pattern) = (Box::new(left.expr), Box::new(pattern.expr));
        with_height(&heights, Expr::Like { negated, case_insensitive, of, pattern })
    }

    fn is(&mut self, left: Tree) -> Result<Tree, Refusal> {
        let negated = self.take_word("not");
        if self.take_word("distinct") {
            self.expect_word("FROM")?;
            let right = self.operand(level::IS + 1)?;
            let operator = if negated { BinaryOperator::NotDistinct } else { BinaryOperator::Distinct };
            let heights = [left.height, right.height];
            return with_height(&heights, Expr::Binary(operator, Box::new(left.expr), Box::new(right.expr)));
        }
        let tests = [
            ("null", IsTest::Null, IsTest::NotNull),
            ("unknown", IsTest::Null, IsTest::NotNull),
            ("true", IsTest::True, IsTest::NotTrue),
            ("false", IsTest::False, IsTest::NotFalse),
        ];
        for (keyword, plain, opposite) in tests {
            if self.take_word(keyword) {
                let test = if negated { opposite } else { plain };
                return with_height(&[left.height], Expr::Is(test, Box::new(left.expr)));
            }
        }
        Err(self.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"))
    }

    fn between(&mut self, left: Tree, negated: bool) -> Result<Tree, Refusal> {
        let low = self.operand(level::CONCATENATION)?;
        self.expect_word("AND")?;
        let high = self.operand(level::CONCATENATION)?;
        let heights = [left.height, low.height, high.height];
        let (of, low, high) = (Box::new(left.expr), Box::new(low.expr), Box::new(high.expr));
        with_height(&heights, Expr::Between { negated, of, low, high })
    }

    fn in_list(&mut self, left: Tree, negated: bool) -> Result<Tree, Refusal> {
        self.expect_symbol("(")?;
        self.no_query_at(0)?;
        let mut heights = vec![left.height];
        let mut list = Vec::new();
        loop {
            let item = self.operand(0)?;
            heights.push(item.height);
            list.push(item.expr);
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        with_height(&heights, Expr::InList { negated, of: Box::new(left.expr), list })
    }
}

/// Words that cannot start an expression.
const RESERVED: &[&str] = &[
    "and", "as", "between", "by", "distinct", "else", "end", "from", "group", "having", "in", "is", "like", "ilike",
    "limit", "on", "or", "order", "then", "union", "when", "where",
];

fn leaf(expr: Expr) -> Result<Tree, Refusal> {
    Ok(Tree { expr, height: 1 })
}

/// Adds a node above subtrees of these heights.
fn with_height(parts: &[usize], expr: Expr) -> Result<Tree, Refusal> {
    let height = 1 + parts.iter().copied().max().unwrap_or(0);
    if height > HIGHEST { Err(Refusal::TooLarge) } else { Ok(Tree { expr, height }) }
}

/// Appends a condition to a list of conditions, so that a long list does not become a high tree.
fn append_condition(
    left: Tree, right: Tree, parts: fn(Expr) -> Result<Vec<Expr>, Expr>, list: fn(Vec<Expr>) -> Expr,
) -> Result<Tree, Refusal> {
    let (mut all, height) = match parts(left.expr) {
        Ok(parts) => (parts, left.height - 1),
        Err(single) => (vec![single], left.height),
    };
    all.push(right.expr);
    with_height(&[height, right.height], list(all))
}

fn binary_operator(symbol: &str) -> Option<BinaryOperator> {
    Some(match symbol {
        "+" => BinaryOperator::Add,
        "-" => BinaryOperator::Subtract,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Remainder,
        "||" => BinaryOperator::Concatenate,
        "=" => BinaryOperator::Equal,
        "<>" | "!=" => BinaryOperator::NotEqual,
        "<" => BinaryOperator::Less,
        "<=" => BinaryOperator::LessOrEqual,
        ">" => BinaryOperator::Greater,
        ">=" => BinaryOperator::GreaterOrEqual,
        _ => return None,
    })
}
