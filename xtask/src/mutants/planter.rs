//! The expressions of a file that a mutant replaces, and the text of its switch.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Item, Pat, Stmt};

use super::operators::{self, Operands};
use super::schema::{Constant, Edit, Id, Kind, Plan, attributes, is_test, rendered};

/// Visits a file and collects the edits that put the switches in.
pub(super) struct Planter<'a> {
    plan: &'a mut Plan,
    file: &'a str,
    text: &'a str,
    active: &'a str,
    edits: Vec<Edit>,
    sequence: i64,
    /// The types and functions around the current expression.
    scope: Vec<String>,
}

impl<'a> Planter<'a> {
    pub(super) fn new(plan: &'a mut Plan, file: &'a str, text: &'a str, active: &'a str) -> Self {
        Self { plan, file, text, active, edits: Vec::new(), sequence: 0, scope: Vec::new() }
    }

    /// The edits for the whole file.
    pub(super) fn edits(mut self, tree: &syn::File) -> Vec<Edit> {
        self.visit_file(tree);
        self.edits
    }

    fn source(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// The source in one line of at most 60 characters.
    fn excerpt(&self, range: Range<usize>) -> String {
        let words: Vec<&str> = self.source(range).split_whitespace().collect();
        words.join(" ").chars().take(60).collect()
    }

    fn mutant(&mut self, spanned: &impl Spanned, change: &str) -> Option<Id> {
        self.mutant_of(Kind::Operator, spanned, change)
    }

    fn mutant_of(&mut self, kind: Kind, spanned: &impl Spanned, change: &str) -> Option<Id> {
        let name = format!("{change} in {}", self.scope.join("::"));
        let id = self.plan.add(kind, self.file, spanned.span().start().line, name);
        (!self.plan.dropped.contains(&id)).then_some(id)
    }

    fn wrap(&mut self, range: Range<usize>, ids: &[Id], open: &str, close: &str) {
        let ids = ids.iter().map(Id::to_string).collect::<Vec<_>>().join(",");
        self.sequence += 1;
        let (sequence, start, end) = (self.sequence, range.start, range.end);
        let edit = |at: usize, order, text| Edit { range: at..at, order, text };
        self.edits.push(edit(start, (1, sequence), format!("/*[{ids}*/{open}")));
        self.edits.push(edit(end, (0, -sequence), format!("{close}/*{ids}]*/")));
    }

    fn insert(&mut self, at: usize, id: Id, text: &str) {
        self.sequence += 1;
        let text = format!("/*[{id}*/{text}/*{id}]*/");
        self.edits.push(Edit { range: at..at, order: (1, self.sequence), text });
    }

    fn replace(&mut self, range: Range<usize>, text: &str) {
        self.edits.push(Edit { range, order: (2, 0), text: text.to_owned() });
    }

    fn is_active(&self, id: Id) -> String {
        format!("{}({id})", self.active)
    }

    /// `if active(1) { first } else if active(2) { second } else { original }`.
    fn choice(&self, alternatives: &[(Id, String)], original: &str) -> String {
        let mut text = String::new();
        for (id, alternative) in alternatives {
            text.push_str(&format!("if {} {{/*[{id}*/ {alternative} /*{id}]*/}} else ", self.is_active(*id)));
        }
        format!("{text}{{ {original} }}")
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let whole = binary.span().byte_range();
        let operator = binary.op.span().byte_range();
        let sign = self.source(operator.clone()).to_owned();
        let excerpt = self.excerpt(whole.clone());
        let mut alternatives = Vec::new();
        for &other in operators::binary(&binary.op) {
            let change = format!("replace {sign} with {other} of `{excerpt}`");
            alternatives.extend(self.mutant(&binary.op, &change).map(|id| (id, other)));
        }
        let ids: Vec<Id> = alternatives.iter().map(|(id, _)| *id).collect();
        let kind = operators::operands(&binary.op);
        let texts = |left: &str, right: &str| -> Vec<(Id, String)> {
            alternatives.iter().map(|(id, other)| (*id, format!("{left} {other} {right}"))).collect()
        };
        if ids.is_empty() {
            return visit::visit_expr_binary(self, binary);
        }
        match kind {
            Operands::Compared => {
                let choice = self.choice(&texts("*l", "*r"), &format!("*l {sign} *r"));
                self.wrap(whole, &ids, "(match (&(", &format!(")) {{ (l, r) => {choice} }})"));
                self.replace(operator, "), &(");
            }
            Operands::Consumed => {
                let choice = self.choice(&texts("l", "r"), &format!("l {sign} r"));
                self.wrap(whole, &ids, "(match ((", &format!(")) {{ (l, r) => {choice} }})"));
                self.replace(operator, "), (");
            }
            Operands::Assigned => {
                let edits = std::mem::take(&mut self.edits);
                self.visit_expr(&binary.left);
                let edits = std::mem::replace(&mut self.edits, edits);
                let target = rendered(self.text, binary.left.span().byte_range(), edits);
                let choice = self.choice(&texts(&target, "r"), &format!("{target} {sign} r"));
                self.wrap(whole.clone(), &ids, "(match (", &format!(") {{ r => {choice} }})"));
                self.replace(whole.start..operator.end, "");
                return self.visit_expr(&binary.right);
            }
            Operands::ShortCircuit => {}
        }
        visit::visit_expr_binary(self, binary);
    }

    /// `a && b` as `((a) != s && (b) != s) != s`: with the switch `s` on it is `a || b`.
    fn short_circuit(&mut self, binary: &syn::ExprBinary) {
        let (sign, other) = if matches!(binary.op, BinOp::And(_)) { ("&&", "||") } else { ("||", "&&") };
        if operators::has_let(&binary.left) || operators::has_let(&binary.right) {
            self.condition(&binary.left);
            return self.condition(&binary.right);
        }
        let whole = binary.span().byte_range();
        let change = format!("replace {sign} with {other} of `{}`", self.excerpt(whole.clone()));
        if let Some(id) = self.mutant(&binary.op, &change) {
            let on = self.is_active(id);
            self.wrap(whole, &[id], "(((", &format!(") != {on}) != {on})"));
            self.replace(binary.op.span().byte_range(), &format!(") != {on} {sign} ("));
        }
        self.condition(&binary.left);
        self.condition(&binary.right);
    }

    /// A condition or an operand of one.
    fn condition(&mut self, expression: &Expr) {
        if operators::is_plain_condition(expression) {
            let whole = expression.span().byte_range();
            let change = format!("negate `{}`", self.excerpt(whole.clone()));
            if let Some(id) = self.mutant(expression, &change) {
                let on = self.is_active(id);
                self.wrap(whole, &[id], "((", &format!(") != {on})"));
            }
        }
        self.visit_expr(expression);
    }

    fn unary(&mut self, unary: &syn::ExprUnary) {
        let sign = match unary.op {
            syn::UnOp::Not(_) => "!",
            syn::UnOp::Neg(_) => "-",
            _ => return self.visit_expr(&unary.expr),
        };
        let whole = unary.span().byte_range();
        let change = format!("delete {sign} of `{}`", self.excerpt(whole.clone()));
        if let Some(id) = self.mutant(unary, &change) {
            let choice = self.choice(&[(id, "v".to_owned())], &format!("{sign}v"));
            self.wrap(whole, &[id], "(match (", &format!(") {{ v => {choice} }})"));
            self.replace(unary.op.span().byte_range(), "");
        }
        self.visit_expr(&unary.expr);
    }

    fn literal(&mut self, literal: &syn::ExprLit) {
        let range = literal.span().byte_range();
        let original = self.source(range.clone()).to_owned();
        let line = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[range.end..].find('\n').map_or(self.text.len(), |at| range.end + at);
        let excerpt = self.excerpt(line..end);
        let mut alternatives = Vec::new();
        for other in operators::literals(&literal.lit) {
            let change = format!("replace {original} with {other} of `{excerpt}`");
            alternatives.extend(self.mutant_of(Kind::Literal, literal, &change).map(|id| (id, other)));
        }
        self.choose(range, &alternatives, &original);
    }

    fn choose(&mut self, range: Range<usize>, alternatives: &[(Id, String)], original: &str) {
        if alternatives.is_empty() {
            return;
        }
        let ids: Vec<Id> = alternatives.iter().map(|(id, _)| *id).collect();
        let choice = self.choice(alternatives, original);
        self.wrap(range.clone(), &ids, &format!("({choice}"), ")");
        self.replace(range, "");
    }

    /// A use of a numeric constant.
    fn constant(&mut self, path: &syn::ExprPath) {
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let name = match &segments[..] {
            [name] => name,
            [owner, name] if owner == "Self" => name,
            _ => return,
        };
        let Some(Constant { kind, ids }) = self.plan.constants.get(name) else { return };
        let changes = if *kind == "f64" { ["* 2.0", "/ 2.0"] } else { ["+ 1", "- 1"] };
        let range = path.span().byte_range();
        let original = self.source(range.clone());
        let alternatives = ids.iter().zip(changes).filter(|(id, _)| !self.plan.dropped.contains(id));
        let alternatives: Vec<_> = alternatives.map(|(id, change)| (*id, format!("{original} {change}"))).collect();
        let original = original.to_owned();
        self.plan.used.extend(alternatives.iter().map(|(id, _)| *id));
        self.choose(range, &alternatives, &original);
    }

    fn arms(&mut self, whole: &syn::ExprMatch) {
        let catches_all = |arm: &syn::Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let deletable = whole.arms.last().is_some_and(catches_all);
        let (last, others) = match whole.arms.split_last() {
            Some((last, others)) => (Some(last), others),
            None => (None, &[][..]),
        };
        for arm in others {
            let pattern = self.excerpt(arm.pat.span().byte_range());
            if let Some((_, guard)) = &arm.guard {
                let range = guard.span().byte_range();
                let always = self.mutant(guard, &format!("replace the guard of `{pattern}` with true"));
                let never = self.mutant(guard, &format!("replace the guard of `{pattern}` with false"));
                let ids: Vec<Id> = always.into_iter().chain(never).collect();
                if !ids.is_empty() && !operators::has_let(guard) {
                    let always = always.map_or("false".to_owned(), |id| self.is_active(id));
                    let never = never.map_or("false".to_owned(), |id| self.is_active(id));
                    self.wrap(range, &ids, "((", &format!(") || {always}) && !{never}"));
                }
                self.visit_expr(guard);
            } else if deletable && let Some(id) = self.mutant(arm, &format!("delete the arm `{pattern}`")) {
                let end = arm.pat.span().byte_range().end;
                self.insert(end, id, &format!(" if !{}", self.is_active(id)));
            }
            self.visit_expr(&arm.body);
        }
        last.into_iter().for_each(|arm| self.visit_arm(arm));
    }

    fn statement(&mut self, expression: &Expr) {
        let inner = if let Expr::Try(tried) = expression { &*tried.expr } else { expression };
        if !matches!(inner, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_)) {
            return;
        }
        let range = expression.span().byte_range();
        let change = format!("delete the statement `{}`", self.excerpt(range.clone()));
        if let Some(id) = self.mutant(expression, &change) {
            let off = format!("if !{} {{ ", self.is_active(id));
            self.wrap(range, &[id], &off, "; }");
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &Block) {
        let name = signature.ident.to_string();
        if let Some(token) = &signature.constness {
            if self.plan.kept_const.contains(&name) {
                return;
            }
            self.replace(token.span().byte_range(), "");
        }
        self.scope.push(name);
        let body = block.span().byte_range();
        let inside = self.source(body.start + 1..body.end - 1).trim().to_owned();
        let open = body.start + 1;
        for value in operators::results(&signature.output) {
            if inside == value || (inside.is_empty() && value == "()") {
                continue;
            }
            if let Some(id) = self.mutant(&signature.ident, &format!("return {value}")) {
                self.insert(open, id, &format!(" if {} {{ return {value}; }}", self.is_active(id)));
            }
        }
        self.visit_block(block);
        self.scope.pop();
    }
}

impl<'a> Visit<'a> for Planter<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.function(&item.sig, block));
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let name = self.source(item.self_ty.span().byte_range());
        let name = name.split('<').next().unwrap_or(name).to_owned();
        let of = item.trait_.as_ref().map(|(_, path, _)| self.excerpt(path.span().byte_range()));
        self.scope.push(of.map_or(name.clone(), |of| format!("<{name} as {of}>")));
        item.items.iter().for_each(|inner| self.visit_impl_item(inner));
        self.scope.pop();
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.scope.push(item.ident.to_string());
        item.items.iter().for_each(|inner| self.visit_trait_item(inner));
        self.scope.pop();
    }

    // Evaluated at compile time, where no switch can be read.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_pat(&mut self, _: &'a Pat) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_variant(&mut self, _: &'a syn::Variant) {}
    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement {
            self.statement(expression);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, branch: &'a syn::ExprIf) {
        self.condition(&branch.cond);
        self.visit_block(&branch.then_branch);
        branch.else_branch.iter().for_each(|(_, other)| self.visit_expr(other));
    }

    fn visit_expr_while(&mut self, branch: &'a syn::ExprWhile) {
        self.condition(&branch.cond);
        self.visit_block(&branch.body);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        if operators::operands(&binary.op) == Operands::ShortCircuit {
            self.short_circuit(binary);
        } else {
            self.binary(binary);
        }
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        self.unary(unary);
    }

    fn visit_expr_lit(&mut self, literal: &'a syn::ExprLit) {
        self.literal(literal);
    }

    fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
        self.constant(path);
    }

    fn visit_expr_match(&mut self, whole: &'a syn::ExprMatch) {
        self.visit_expr(&whole.expr);
        self.arms(whole);
    }
}
