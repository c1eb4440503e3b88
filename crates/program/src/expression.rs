//! The small language in which people name a place: C's way to reach into variables, without casts and arithmetic.
//!
//! ```text
//!   expression = ("*" | "&") expression | reach
//!   reach      = ( name | number | "(" expression ")" ) { "." field | "->" field | "[" index "]" }
//!   index      = number | name
//! ```

use std::fmt;

/// Nesting deeper than this is refused.
const MAX_DEPTH: usize = 64;
/// Longer texts are refused.
const MAX_TEXT: usize = 4096;

/// Something to evaluate with [`crate::variables::Variables::evaluate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Possibly qualified: `counter`, `stats::counter`. With `::` in front it is the whole name of a global.
    Name(String),
    Number(u64),
    /// `base.field`; on a pointer also what `->` means.
    Field {
        base: Box<Expression>,
        name: String,
    },
    /// `base->field`.
    Arrow {
        base: Box<Expression>,
        name: String,
    },
    Index {
        base: Box<Expression>,
        index: Box<Expression>,
    },
    Dereference(Box<Expression>),
    AddressOf(Box<Expression>),
}

/// What is wrong with the text of an expression or of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub text: String,
    /// In bytes from the start of `text`.
    pub position: usize,
    pub expected: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.text.get(self.position..).unwrap_or_default();
        match rest.is_empty() {
            true => write!(formatter, "`{}` ends where {} is expected", self.text, self.expected),
            false => write!(formatter, "`{}` has `{rest}` where {} is expected", self.text, self.expected),
        }
    }
}

impl std::error::Error for SyntaxError {}

/// As it would be typed.
impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let postfix_base = |base: &Expression| match base {
            Expression::Dereference(_) | Expression::AddressOf(_) => format!("({base})"),
            base => base.to_string(),
        };
        match self {
            Expression::Name(name) => formatter.write_str(name),
            Expression::Number(number) => write!(formatter, "{number}"),
            Expression::Field { base, name } => write!(formatter, "{}.{name}", postfix_base(base)),
            Expression::Arrow { base, name } => write!(formatter, "{}->{name}", postfix_base(base)),
            Expression::Index { base, index } => write!(formatter, "{}[{index}]", postfix_base(base)),
            Expression::Dereference(inner) => write!(formatter, "*{inner}"),
            Expression::AddressOf(inner) => write!(formatter, "&{inner}"),
        }
    }
}

impl Expression {
    pub fn parse(text: &str) -> Result<Expression, SyntaxError> {
        let mut parser = Parser { text, position: 0, depth: 0 };
        if text.len() > MAX_TEXT {
            return Err(parser.expected("a shorter expression"));
        }
        let expression = parser.expression()?;
        parser.skip_spaces();
        match parser.rest().is_empty() {
            true => Ok(expression),
            false => Err(parser.expected("`.`, `->`, `[` or the end")),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn expected(&self, expected: &'static str) -> SyntaxError {
        SyntaxError { text: self.text.to_owned(), position: self.position, expected }
    }

    fn skip_spaces(&mut self) {
        self.position = self.text.len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let accepted = self.rest().starts_with(token);
        self.position += if accepted { token.len() } else { 0 };
        accepted
    }

    fn expression(&mut self) -> Result<Expression, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.expected("less nesting"));
        }
        let expression = match () {
            () if self.accept("*") => Expression::Dereference(Box::new(self.expression()?)),
            () if self.accept("&") => Expression::AddressOf(Box::new(self.expression()?)),
            () => self.reach()?,
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn reach(&mut self) -> Result<Expression, SyntaxError> {
        let mut reached = self.primary()?;
        for _ in 0..MAX_DEPTH {
            let Some(token) = ["->", ".", "["].into_iter().find(|token| self.accept(token)) else {
                return Ok(reached);
            };
            let base = Box::new(reached);
            reached = match token {
                "->" => Expression::Arrow { base, name: self.field()? },
                "." => Expression::Field { base, name: self.field()? },
                _ => self.indexed(base)?,
            };
        }
        Err(self.expected("less nesting"))
    }

    fn indexed(&mut self, base: Box<Expression>) -> Result<Expression, SyntaxError> {
        let index = Box::new(self.index()?);
        match self.accept("]") {
            true => Ok(Expression::Index { base, index }),
            false => Err(self.expected("`]`")),
        }
    }

    fn primary(&mut self) -> Result<Expression, SyntaxError> {
        if self.accept("(") {
            let inner = self.expression()?;
            return if self.accept(")") { Ok(inner) } else { Err(self.expected("`)`")) };
        }
        self.index()
    }

    /// A number or a name.
    fn index(&mut self) -> Result<Expression, SyntaxError> {
        self.skip_spaces();
        let end = self.rest().find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(self.rest().len());
        let word = &self.rest()[..end];
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            let number = parse_number(word).ok_or_else(|| self.expected("a number"))?;
            self.position += end;
            return Ok(Expression::Number(number));
        }
        self.name().map(Expression::Name)
    }

    /// Segments joined by `::`; also one in front.
    fn name(&mut self) -> Result<String, SyntaxError> {
        let mut name = if self.accept("::") { "::".to_owned() } else { String::new() };
        name.push_str(&self.segment("a variable, a number or `(`")?);
        while self.rest().starts_with("::") {
            self.position += 2;
            name.push_str("::");
            name.push_str(&self.segment("a name")?);
        }
        Ok(name)
    }

    /// A field's name, or the number that fields of Rust tuples have.
    fn field(&mut self) -> Result<String, SyntaxError> {
        self.segment("the name of a field")
    }

    fn segment(&mut self, expected: &'static str) -> Result<String, SyntaxError> {
        self.skip_spaces();
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
        let mut end = self.rest().find(|letter| !is_part(letter)).unwrap_or(self.rest().len());
        if end == 0 {
            return Err(self.expected(expected));
        }
        end += arguments(&self.rest()[end..]);
        let segment = self.rest()[..end].to_owned();
        self.position += end;
        Ok(segment)
    }
}

/// The length of `<…>` at the start, as in `Box<int>::count`; 0 if there is none.
fn arguments(text: &str) -> usize {
    let mut open = 0usize;
    for (position, letter) in text.char_indices() {
        match letter {
            '<' => open += 1,
            '>' if open == 1 => return position + 1,
            '>' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            return 0;
        }
    }
    0
}

/// Decimal, or hexadecimal after `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parsing and writing again gives the same.
    fn check(text: &str) {
        assert_eq!(Expression::parse(text).map(|expression| expression.to_string()), Ok(text.to_owned()));
    }

    #[test]
    fn expressions_read_back() {
        let texts = ["a", "ns::b", "crate_name::inner::STATIC", "a.b", "a->b.c[3]", "*p", "&a[i]", "(*p).next", "**p"];
        texts.into_iter().for_each(check);
        check("shapes::Box<int>::count");
        check("pair.0");
        check("grid[2][3]->x");
    }

    #[test]
    fn precedence_is_that_of_c() {
        let field = Expression::Arrow { base: Box::new(Expression::Name("p".to_owned())), name: "x".to_owned() };
        assert_eq!(Expression::parse(" * p -> x "), Ok(Expression::Dereference(Box::new(field))));
        assert_eq!(Expression::parse("(a)"), Ok(Expression::Name("a".to_owned())));
        assert_eq!(Expression::parse("0x10"), Ok(Expression::Number(16)));
        assert_eq!(Expression::parse("::a::b"), Ok(Expression::Name("::a::b".to_owned())));
    }

    #[test]
    fn errors_say_where_and_what() {
        let complaint = |text: &str| Expression::parse(text).unwrap_err().to_string();
        assert_eq!(complaint("a."), "`a.` ends where the name of a field is expected");
        assert_eq!(complaint("a[1"), "`a[1` ends where `]` is expected");
        assert_eq!(complaint("a + 1"), "`a + 1` has `+ 1` where `.`, `->`, `[` or the end is expected");
        assert_eq!(complaint(""), "`` ends where a variable, a number or `(` is expected");
        assert_eq!(complaint("0x"), "`0x` has `0x` where a number is expected");
    }

    #[test]
    fn deep_nesting_is_refused() {
        for open in ["(", "*", "&", "a["] {
            assert!(Expression::parse(&open.repeat(1000)).is_err());
        }
        assert!(Expression::parse(&format!("a{}", ".b".repeat(1000))).is_err());
    }
}
