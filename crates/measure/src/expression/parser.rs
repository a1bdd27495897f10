//! Parses tokens into a syntax tree, by recursive descent.
//!
//! ```text
//! claim      = comparison { "and" comparison }
//! comparison = sum relation sum { relation sum }
//! sum        = product { ("+" | "-") product }
//! product    = factor { ("*" | "/") factor }
//! factor     = number | "-" factor | "(" sum ")" | call | selection
//! call       = function "(" [ number "," ] sum [ "by" ("run" | "node" | name { "," name }) ] ")"
//! selection  = name [ "{" condition { "," condition } "}" ]
//! condition  = name ("=" | "!=" | "<" | "<=" | ">" | ">=") value { "|" value }
//! ```

use super::{
    Aggregate, Comparison, Condition, Expression, GroupBy, Operator, Relation, Selection,
    lexer::{Kind, Token, tokens},
    shortened,
};

/// The deepest nesting of brackets. Deeper ones are refused, so that no text can exhaust the stack.
const MOST_NESTED: usize = 64;

/// The longest text, in characters. A sum of many numbers is a deep tree, too.
const MOST_CHARACTERS: usize = 4000;

pub(super) struct Parser {
    tokens: Vec<Token>,
    next: usize,
    nested: usize,
}

type Parsed<T> = Result<T, String>;

impl Parser {
    pub fn new(text: &str) -> Parsed<Self> {
        if text.chars().nth(MOST_CHARACTERS).is_some() {
            let column = MOST_CHARACTERS + 1;
            return Err(format!("column {column}: expected at most {MOST_CHARACTERS} characters"));
        }
        Ok(Self { tokens: tokens(text)?, next: 0, nested: 0 })
    }

    /// Parses all comparisons of a claim, to the end of the text.
    pub fn claim(&mut self) -> Parsed<Vec<Comparison>> {
        let mut comparisons = vec![self.comparison()?];
        while self.takes_word("and") {
            comparisons.push(self.comparison()?);
        }
        self.end("`and`, a comparison or the end")?;
        Ok(comparisons)
    }

    /// Parses an expression without a comparison, to the end of the text.
    pub fn expression(&mut self) -> Parsed<Expression> {
        let expression = self.sum()?;
        self.end("an operator or the end")?;
        Ok(expression)
    }

    fn comparison(&mut self) -> Parsed<Comparison> {
        let mut comparison = Comparison { first: self.sum()?, others: Vec::new() };
        while let Some(relation) = self.relation() {
            comparison.others.push((relation, self.sum()?));
        }
        match comparison.others.is_empty() {
            true => Err(self.unexpected("one of <, <=, >, >= and ==")),
            false => Ok(comparison),
        }
    }

    fn relation(&mut self) -> Option<Relation> {
        let Kind::Sign(sign) = self.peek() else { return None };
        let relation = Relation::ALL.into_iter().find(|relation| relation.sign() == *sign)?;
        self.next += 1;
        Some(relation)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.operators(&[("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Parsed<Expression> {
        self.operators(&[("*", Operator::Multiply), ("/", Operator::Divide)], Self::factor)
    }

    fn operators(
        &mut self,
        signs: &[(&str, Operator)],
        operand: fn(&mut Self) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = signs.iter().find(|(sign, _)| self.takes(sign)) {
            let right = operand(self)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Parsed<Expression> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return Err(self.unexpected(&format!("at most {MOST_NESTED} brackets within each other")));
        }
        let factor = self.unnested_factor();
        self.nested -= 1;
        factor
    }

    fn unnested_factor(&mut self) -> Parsed<Expression> {
        if self.takes("-") {
            let negated = Box::new(self.factor()?);
            return Ok(Expression::Binary(
                Operator::Subtract,
                Box::new(Expression::Number(0.0, "")),
                negated,
            ));
        }
        if self.takes("(") {
            let inner = self.sum()?;
            self.needs(")")?;
            return Ok(inner);
        }
        match self.peek().clone() {
            Kind::Number(value, unit) => {
                self.next += 1;
                Ok(Expression::Number(value, unit))
            }
            Kind::Word(name) => {
                self.next += 1;
                if self.takes("(") { self.call(&name) } else { self.selection(name) }
            }
            _ => Err(self.unexpected("a number, a measure or a function")),
        }
    }

    /// Parses the rest of a call, after its opening bracket.
    fn call(&mut self, name: &str) -> Parsed<Expression> {
        if name == "paper" {
            let inner = self.sum()?;
            self.needs(")")?;
            return Ok(Expression::Paper(Box::new(inner)));
        }
        let aggregate = if name == "percentile" {
            let Kind::Number(percent, "") = *self.peek() else {
                return Err(self.unexpected("the percentile, from 0 to 100, and a comma"));
            };
            self.next += 1;
            self.needs(",")?;
            Aggregate::Percentile(percent)
        } else {
            Aggregate::parse(name).ok_or_else(|| {
                let names = Aggregate::NAMED.map(|(name, _)| name).join(", ");
                format!("there is no function `{}`: there are {names}, percentile and paper", shortened(name))
            })?
        };
        let inner = self.sum()?;
        // `by run` may be inside or after the brackets. Both read well.
        let inside = self.group()?;
        self.needs(")")?;
        let group = match inside {
            Some(group) => Some(group),
            None => self.group()?,
        };
        Ok(Expression::Aggregate(aggregate, Box::new(inner), group))
    }

    fn group(&mut self) -> Parsed<Option<GroupBy>> {
        if !self.takes_word("by") {
            return Ok(None);
        }
        if self.takes_word("run") {
            return Ok(Some(GroupBy::Run));
        }
        if self.takes_word("node") {
            return Ok(Some(GroupBy::Node));
        }
        let mut names = Vec::new();
        loop {
            let Kind::Word(name) = self.peek().clone() else {
                return Err(self.unexpected("`run`, `node` or the name of a parameter"));
            };
            self.next += 1;
            names.push(name);
            if !self.takes(",") {
                return Ok(Some(GroupBy::Parameters(names)));
            }
        }
    }

    fn selection(&mut self, name: String) -> Parsed<Expression> {
        let mut conditions = Vec::new();
        if self.takes("{") {
            loop {
                conditions.push(self.condition()?);
                if !self.takes(",") {
                    break;
                }
            }
            self.needs("}")?;
        }
        Ok(Expression::Of(Selection { name, conditions }))
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let Kind::Word(key) = self.peek().clone() else {
            return Err(self.unexpected("the name of a parameter"));
        };
        self.next += 1;
        let relation = match self.takes("=") {
            true => Some(Relation::Equal),
            false => self.relation(),
        };
        let Some(relation) = relation else { return Err(self.unexpected("one of =, !=, <, <=, > and >=")) };
        let mut values = vec![self.value()?];
        while self.takes("|") {
            values.push(self.value()?);
        }
        Ok(Condition { key, relation, values })
    }

    fn value(&mut self) -> Parsed<String> {
        let value = match self.peek() {
            Kind::Text(text) | Kind::Word(text) => text.clone(),
            Kind::Number(number, _) => number.to_string(),
            _ => return Err(self.unexpected("a text in quotes or a number")),
        };
        self.next += 1;
        Ok(value)
    }

    fn peek(&self) -> &Kind {
        &self.tokens[self.next].kind
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Kind::Sign(next) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Kind::Word(next) if next == word);
        self.next += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, sign: &str) -> Parsed<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    fn end(&self, expected: &str) -> Parsed<()> {
        if *self.peek() == Kind::End { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> String {
        let token = &self.tokens[self.next];
        let found = match &token.kind {
            Kind::Number(number, _) => format!("`{number}`"),
            Kind::Word(word) => format!("`{}`", shortened(word)),
            Kind::Text(text) => format!("`\"{}\"`", shortened(text)),
            Kind::Sign(sign) => format!("`{sign}`"),
            Kind::End => "the end".into(),
        };
        format!("column {}: expected {expected}, found {found}", token.column)
    }
}
