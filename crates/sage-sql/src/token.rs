//! The lexer: SQL text to tokens, in one pass over the text.

use crate::refusal::{Refusal, shortened};

/// The longest text, in bytes.
const LONGEST: usize = 20_000;
/// The most tokens of a text.
const MOST_TOKENS: usize = 4_000;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword or a name, as written.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// An unsigned number, as written.
    Number(String),
    /// A text in single quotes.
    Text(String),
    /// An operator or a punctuation mark.
    Symbol(&'static str),
    /// A placeholder or variable such as `$1`, which no expression may contain, as written.
    Foreign(String),
    /// The end of the text.
    End,
}

/// A token with the offset of its first byte.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) start: usize,
}

/// Longer symbols come first, so that the longest match is found.
const SYMBOLS: &[&str] = &[
    "<>", "<=", ">=", "!=", "||", "::", "<<", ">>", "->", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", ">", ".",
    ";", "[", "]", "{", "}", "~", "&", "|", "^", "#", ":", "?", "!",
];

/// The tokens of a text, the last of which is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, Refusal> {
    if text.len() > LONGEST {
        return Err(Refusal::TooLarge);
    }
    let mut found = Vec::new();
    let mut lexer = Lexer { text, at: 0 };
    loop {
        lexer.skip_blanks()?;
        let start = lexer.at;
        let token = lexer.next()?;
        let ended = token == Token::End;
        found.push(Spanned { token, start });
        if ended {
            return Ok(found);
        }
        if found.len() > MOST_TOKENS {
            return Err(Refusal::TooLarge);
        }
    }
}

struct Lexer<'text> {
    text: &'text str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) -> Result<(), Refusal> {
        loop {
            let blanks = self.rest().len() - self.rest().trim_start().len();
            self.at += blanks;
            if self.rest().starts_with("--") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                let end = self.rest().find("*/").ok_or_else(|| Refusal::unreadable("a comment does not end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token, Refusal> {
        let Some(first) = self.rest().chars().next() else { return Ok(Token::End) };
        match first {
            '\'' => Ok(Token::Text(self.quoted('\'', "a text in quotes does not end")?)),
            '"' => Ok(Token::Quoted(self.quoted('"', "a name in quotes does not end")?)),
            '0'..='9' => Ok(Token::Number(self.number())),
            '.' if self.rest()[1..].starts_with(|character: char| character.is_ascii_digit()) => {
                Ok(Token::Number(self.number()))
            }
            character if character.is_alphabetic() || character == '_' => Ok(Token::Word(self.word())),
            '$' | '@' => Ok(Token::Foreign(self.foreign())),
            other => match SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Ok(Token::Symbol(symbol))
                }
                None => Err(Refusal::unreadable(format!("unexpected character {}", shortened(&other.to_string(), 1)))),
            },
        }
    }

    /// The contents of a quoted token; a doubled quote stands for one.
    fn quoted(&mut self, quote: char, unended: &str) -> Result<String, Refusal> {
        let mut content = String::new();
        let mut characters = self.rest().char_indices().skip(1).peekable();
        while let Some((offset, character)) = characters.next() {
            if character != quote {
                content.push(character);
            } else if characters.next_if(|(_, next)| *next == quote).is_some() {
                content.push(quote);
            } else {
                self.at += offset + quote.len_utf8();
                return Ok(content);
            }
        }
        Err(Refusal::unreadable(unended))
    }

    fn word(&mut self) -> String {
        let part_of_word = |character: char| character.is_alphanumeric() || character == '_';
        let length = self.rest().find(|character| !part_of_word(character)).unwrap_or(self.rest().len());
        self.take(length)
    }

    /// Digits, a point, digits, and an exponent if one follows.
    fn number(&mut self) -> String {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = digits(0);
        if bytes.get(length) == Some(&b'.') {
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(bytes.len().min(length + 1 + sign));
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        self.take(length)
    }

    fn foreign(&mut self) -> String {
        let part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '@');
        let length = self.rest().find(|character| !part(character)).unwrap_or(self.rest().len());
        self.take(length)
    }

    fn take(&mut self, length: usize) -> String {
        let content = self.rest()[..length].to_owned();
        self.at += length;
        content
    }
}

impl Token {
    /// The token as shown in messages.
    pub(crate) fn display(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Foreign(text) => shortened(text, 40),
            Self::Quoted(text) => format!("\"{}\"", shortened(text, 40)),
            Self::Text(text) => format!("'{}'", shortened(text, 40)),
            Self::Symbol(symbol) => (*symbol).to_owned(),
            Self::End => "the end of the text".to_owned(),
        }
    }
}
