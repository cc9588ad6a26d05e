//! Ratchets: how long a function and a file may be, how deep a function may nest.
//!
//! `xtask/tidy-exceptions.txt` may hold what stands above a limit, one `<rule> <file>[::<function>] <number>`
//! a line. It only shrinks: a number above the truth, or a line that is no longer needed, is an offence too.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Offence;
use crate::tree::Source;

/// Where the exceptions stand, from the root.
pub(crate) const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// A function that fits on a screen can be read without scrolling.
const MOST_FUNCTION_LINES: usize = 70;
/// Beyond this a file has more than one subject.
const MOST_FILE_LINES: usize = 600;
/// Deeper than this the reader has to keep a stack.
const MOST_NESTING: usize = 4;
/// What may stand around one wide flat `match` in a function that is longer than the limit.
const MOST_AROUND_MATCH: usize = 30;
/// An arm longer than this makes the match not flat.
const MOST_ARM_LINES: usize = 12;

/// One measured thing that stands above its limit.
struct Excess {
    /// `function-lines`, `file-lines` or `nesting`.
    rule: &'static str,
    /// The file, or `file::function`.
    place: String,
    file: String,
    line: usize,
    measured: usize,
    limit: usize,
}

/// Offences against the limits and against the exception list.
pub(crate) fn check(sources: &[Source], exceptions: &str) -> Vec<Offence> {
    let mut allowed = BTreeMap::new();
    let mut offences = Vec::new();
    for (index, line) in exceptions.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match parse_exception(line) {
            Some((key, most)) => drop(allowed.insert(key, (most, index + 1))),
            None => {
                offences.push(Offence::new(EXCEPTIONS, index + 1, "not an exception", "see its first line"))
            }
        }
    }
    for excess in sources.iter().filter(|source| source.is_rust()).flat_map(measure) {
        let key = format!("{} {}", excess.rule, excess.place);
        match allowed.remove(&key) {
            Some((most, _)) if most == excess.measured => {}
            Some((most, line)) if most > excess.measured => {
                let todo = format!("lower the number to {}", excess.measured);
                offences.push(Offence::new(EXCEPTIONS, line, format!("{key} has shrunk below {most}"), todo));
            }
            _ => offences.push(Offence::new(
                &excess.file,
                excess.line,
                format!(
                    "{} of {} is {}, the limit is {}",
                    excess.rule, excess.place, excess.measured, excess.limit
                ),
                "split it along its subjects",
            )),
        }
    }
    for (key, (_, line)) in allowed {
        offences.push(Offence::new(
            EXCEPTIONS,
            line,
            format!("{key} is within its limit"),
            "remove the line",
        ));
    }
    offences
}

fn parse_exception(line: &str) -> Option<(String, usize)> {
    let (key, number) = line.trim().rsplit_once(' ')?;
    Some((key.trim().to_owned(), number.parse().ok()?))
}

fn measure(source: &Source) -> Vec<Excess> {
    let mut excesses = Vec::new();
    let lines = source.text.lines().count();
    if lines > MOST_FILE_LINES {
        excesses.push(Excess {
            rule: "file-lines",
            place: source.path.clone(),
            file: source.path.clone(),
            line: 1,
            measured: lines,
            limit: MOST_FILE_LINES,
        });
    }
    // A file that does not parse is the compiler's to report.
    if let Ok(file) = syn::parse_file(&source.text) {
        let mut functions = Functions { path: &source.path, excesses: Vec::new() };
        functions.visit_file(&file);
        excesses.extend(functions.excesses);
    }
    excesses
}

/// Visits every function and method, also nested ones.
struct Functions<'a> {
    path: &'a str,
    excesses: Vec<Excess>,
}

impl Functions<'_> {
    fn judge(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = signature.span().start().line;
        let lines = block.span().end().line - start + 1;
        let mut shape = Shape::default();
        shape.visit_block(block);
        let flat = shape.flat_match_lines > 0 && lines - shape.flat_match_lines <= MOST_AROUND_MATCH;
        let limits = [
            ("function-lines", if flat { 0 } else { lines }, MOST_FUNCTION_LINES),
            ("nesting", shape.deepest, MOST_NESTING),
        ];
        for (rule, measured, limit) in limits.into_iter().filter(|(_, measured, limit)| measured > limit) {
            self.excesses.push(Excess {
                rule,
                place: format!("{}::{}", self.path, signature.ident),
                file: self.path.to_owned(),
                line: start,
                measured,
                limit,
            });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.judge(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.judge(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.judge(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// How deep one function goes, and how much of it is one flat match.
#[derive(Default)]
struct Shape {
    depth: usize,
    deepest: usize,
    flat_match_lines: usize,
}

impl Shape {
    fn deeper(&mut self, walk: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        walk(self);
        self.depth -= 1;
    }
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.visit_expr(&expression.cond);
        self.deeper(|shape| shape.visit_block(&expression.then_branch));
        match expression.else_branch.as_ref().map(|(_, branch)| branch.as_ref()) {
            // `else if` reads as one ladder, not as a level.
            Some(syn::Expr::If(ladder)) => self.visit_expr_if(ladder),
            Some(other) => self.deeper(|shape| shape.visit_expr(other)),
            None => {}
        }
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let lines = |span: proc_macro2::Span| span.end().line - span.start().line + 1;
        if expression.arms.iter().all(|arm| lines(arm.span()) <= MOST_ARM_LINES) {
            self.flat_match_lines = self.flat_match_lines.max(lines(expression.span()));
        }
        self.deeper(|shape| visit::visit_expr_match(shape, expression));
    }

    fn visit_expr_for_loop(&mut self, expression: &'ast syn::ExprForLoop) {
        self.deeper(|shape| visit::visit_expr_for_loop(shape, expression));
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        self.deeper(|shape| visit::visit_expr_while(shape, expression));
    }

    fn visit_expr_loop(&mut self, expression: &'ast syn::ExprLoop) {
        self.deeper(|shape| visit::visit_expr_loop(shape, expression));
    }

    // An item inside a function is measured on its own.
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn caught(text: &str, exceptions: &str) -> Vec<String> {
        check(&[source("a.rs", text)], exceptions).into_iter().map(|offence| offence.what).collect()
    }

    fn long(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_is_caught() {
        assert!(caught(&long(MOST_FUNCTION_LINES), "").is_empty());
        assert_eq!(caught(&long(MOST_FUNCTION_LINES + 1), "").len(), 1);
    }

    #[test]
    fn a_wide_flat_match_may_be_longer_and_a_tall_one_may_not() {
        let flat: String = (0..90).map(|arm| format!("        {arm} => g(),\n")).collect();
        assert!(caught(&format!("fn f() {{\n    match x {{\n{flat}    }}\n}}\n"), "").is_empty());
        let tall = format!("        1 => {{\n{}        }}\n", "            g();\n".repeat(90));
        assert_eq!(caught(&format!("fn f() {{\n    match x {{\n{tall}    }}\n}}\n"), "").len(), 1);
    }

    #[test]
    fn a_long_file_is_caught() {
        assert!(caught(&"\n".repeat(MOST_FILE_LINES), "").is_empty());
        assert_eq!(caught(&"\n".repeat(MOST_FILE_LINES + 1), "").len(), 1);
    }

    #[test]
    fn deep_nesting_is_caught_and_a_ladder_is_not_deep() {
        let deep = "fn f() { if a { for b in c { while d { match e { _ => { if g { h() } } } } } } }";
        assert_eq!(caught(deep, "").len(), 1);
        let ladder = "fn f() { if a {} else if b {} else if c {} else if d {} else if e {} else {} }";
        assert!(caught(ladder, "").is_empty());
    }

    #[test]
    fn an_exception_holds_exactly_and_only_shrinks() {
        let text = long(80);
        assert!(caught(&text, "function-lines a.rs::f 80\n").is_empty());
        assert_eq!(caught(&text, "function-lines a.rs::f 79\n").len(), 1, "it grew");
        assert_eq!(caught(&text, "function-lines a.rs::f 81\n").len(), 1, "it shrank");
        assert_eq!(caught("fn f() {}", "function-lines a.rs::f 80\n").len(), 1, "it is no longer needed");
    }
}
