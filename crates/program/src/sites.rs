//! Code by line and by function, and what expressions name there.

use std::ops::Range;
use std::path::Path;

use crate::debug_info::SourceLine;
use crate::declarations::FunctionEntry;
use crate::evaluate::{EvaluationError, Target};
use crate::expression::Expression;
use crate::line_code::{LineCode, end_of_prologue};
use crate::module_variables::ModuleVariables;
use crate::nearest::nearest;
use crate::qualified_names::{last_segment, name_matches};
use crate::scopes::Within;
use crate::space::{FileVma, GuestAddress, ModuleIdx};
use crate::unwind::{CodeAddress, CodeAddressKind};
use crate::variables::{Place, Scope, Variables};
use crate::whereabouts::{Site, Where, WhereError};

/// A function with code of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Qualified.
    pub name: String,
    pub module: ModuleIdx,
    /// Not empty. The first starts at the entry.
    pub code: Vec<Range<GuestAddress>>,
    /// The first address at which parameters are where the debug information says.
    pub body: GuestAddress,
    pub declared: Option<SourceLine>,
}

impl Variables {
    /// Everything that is where somebody says. What `scope` says of registers holds only for its own code address; other
    /// sites are evaluated without.
    pub fn resolve(&self, place: &Where, scope: &Scope<'_>) -> Result<Vec<Site>, WhereError> {
        match place {
            Where::Address { address, length } => Ok(vec![self.address_site(*address, *length)]),
            Where::Variable { expression, offset } => {
                let target = self.variable_target(expression, *offset, scope).map_err(WhereError::Evaluation)?;
                Ok(vec![Site { code: None, function: None, target: Ok(target) }])
            }
            Where::Line { file, line, expression } => {
                let code = self.code_of_line(file, *line)?;
                Ok(code.into_iter().map(|range| self.line_site(range, expression, scope)).collect())
            }
            Where::Function { function, expression } => self.function_sites(function, expression, scope),
        }
    }

    /// The code of a line; one range for every place that the compiler has put it at.
    pub fn code_of_line(&self, file: &Path, line: u32) -> Result<Vec<Range<GuestAddress>>, WhereError> {
        let mut ranges = Vec::new();
        let mut all = LineCode::default();
        for module in self.all_modules() {
            let Some((debug_info, _)) = &module.debug_info else {
                continue;
            };
            let mut code = LineCode::default();
            code.collect(debug_info, file, line);
            let loaded = self.space().module(module.module_idx);
            let guest = |range: Range<u64>| {
                loaded.guest_address(FileVma(range.start))..loaded.guest_address(FileVma(range.end))
            };
            let executable = |range: &Range<GuestAddress>| self.space().is_executable(range.start);
            ranges.extend(code.ranges.into_iter().map(guest).filter(executable));
            all.file_known |= code.file_known;
            all.lines_with_code.append(&mut code.lines_with_code);
        }
        match () {
            () if !ranges.is_empty() => Ok(ranges),
            () if !all.file_known => Err(WhereError::NoFile { file: file.to_owned() }),
            () => {
                let before = all.lines_with_code.range(..line).next_back();
                let after = all.lines_with_code.range(line..).next();
                let nearest = before.into_iter().chain(after).copied().collect();
                Err(WhereError::NoCode { file: file.to_owned(), line, nearest })
            }
        }
    }

    /// Functions by name, qualified or not. A function that exists only inlined into others is not found.
    pub fn functions_named(&self, name: &str) -> Vec<Function> {
        self.function_entries(name).into_iter().filter_map(|(module, entry)| self.function(module, entry)).collect()
    }

    /// The function that an address is in, and where that function starts.
    pub fn function_at(&self, code: CodeAddress) -> Option<(String, GuestAddress)> {
        let (module_idx, file_vma) = self.space().locate(code.for_lookup())?;
        let (_, debug_info, declarations) = self.debug_module(module_idx)?;
        let entry = declarations.function_at(file_vma.0)?;
        let start = self.space().module(module_idx).guest_address(FileVma(entry.ranges.first()?.start));
        Some((declarations.function_name(debug_info, entry)?, start))
    }

    pub(crate) fn unit_at(&self, code: CodeAddress) -> Option<(ModuleIdx, u32)> {
        let (module_idx, file_vma) = self.space().locate(code.for_lookup())?;
        let (_, debug_info, declarations) = self.debug_module(module_idx)?;
        let function = declarations.function_at(file_vma.0)?;
        Some((module_idx, debug_info.declaring_unit(function.entry)))
    }

    fn address_site(&self, address: GuestAddress, length: Option<u64>) -> Site {
        let described = self.describe(address, length.unwrap_or(1)).filter(|described| described.offset == 0);
        let fits = described.filter(|described| length.is_none_or(|length| length == described.size));
        let size = length.or(fits.as_ref().map(|described| described.size).filter(|size| *size > 0));
        let target = Target {
            text: format!("{:#x}", address.0),
            place: Place::Address(address),
            type_id: fits.and_then(|described| described.type_id),
            size,
            bits: None,
        };
        Site { code: None, function: None, target: Ok(target) }
    }

    fn variable_target(
        &self,
        expression: &Expression,
        offset: Option<u64>,
        scope: &Scope<'_>,
    ) -> Result<Target, EvaluationError> {
        let target = self.evaluate(expression, scope).or_else(|error| match expression {
            Expression::Name(name) => self.function_target(name).ok_or(error),
            _ => Err(error),
        })?;
        Ok(match offset {
            None => target,
            Some(offset) => self.target_at(target, offset),
        })
    }

    /// The code of a function, as something in memory.
    fn function_target(&self, name: &str) -> Option<Target> {
        let functions = self.functions_named(name);
        let range = functions.first().filter(|_| functions.len() == 1)?.code.first()?;
        let size = Some(range.end.0.saturating_sub(range.start.0));
        Some(Target { text: name.to_owned(), place: Place::Address(range.start), type_id: None, size, bits: None })
    }

    fn target_at(&self, target: Target, offset: u64) -> Target {
        let text = format!("{}+{offset}", target.text);
        let inner = target.type_id.map(|type_id| self.path_in(type_id, offset, 1)).filter(|inner| inner.offset == 0);
        let rest = target.size.and_then(|size| size.checked_sub(offset)).filter(|rest| *rest > 0);
        let (type_id, size) = match inner {
            Some(inner) if offset < target.size.unwrap_or(0) => (Some(inner.type_id), Some(inner.size)),
            _ => (None, rest),
        };
        Target { place: target.place.part(offset, size.unwrap_or(0)), text, type_id, size, bits: None }
    }

    fn line_site(&self, code: Range<GuestAddress>, expression: &Expression, scope: &Scope<'_>) -> Site {
        let here = scope.code.filter(|address| code.contains(&address.for_lookup()));
        let start = CodeAddress { pc: code.start.0, kind: CodeAddressKind::Exact };
        let scope = if here.is_some() { *scope } else { Scope { code: Some(start), registers: None, ..*scope } };
        let function = self.function_at(start).map(|(name, _)| name);
        Site { target: self.evaluate(expression, &scope), code: Some(code), function }
    }

    /// The code of all functions of a name, qualified or not. Those that only a symbol table knows count if debug
    /// information knows none.
    pub fn code_of_function(&self, name: &str) -> Result<Vec<Range<GuestAddress>>, WhereError> {
        let declared: Vec<_> = self.functions_named(name).into_iter().flat_map(|function| function.code).collect();
        let code =
            if declared.is_empty() { self.space().code_named(|symbol| name_matches(symbol, name)) } else { declared };
        if code.is_empty() { Err(self.no_function(name)) } else { Ok(code) }
    }

    fn no_function(&self, name: &str) -> WhereError {
        let names = self.all_modules().filter_map(|module| module.debug_info.as_ref());
        let names = names.flat_map(|(_, declarations)| declarations.functions_by_name.keys().map(String::as_str));
        WhereError::NoFunction { name: name.to_owned(), nearest: nearest(name, names) }
    }

    fn function_sites(&self, name: &str, expression: &Expression, scope: &Scope<'_>) -> Result<Vec<Site>, WhereError> {
        let entries = self.function_entries(name);
        if entries.is_empty() {
            return Err(self.no_function(name));
        }
        let sites = entries.into_iter().flat_map(|(module, entry)| self.sites_in(module, entry, expression, scope));
        Ok(sites.collect())
    }

    fn sites_in(
        &self,
        module: &ModuleVariables,
        entry: &FunctionEntry,
        expression: &Expression,
        scope: &Scope<'_>,
    ) -> Vec<Site> {
        let (Some(function), Some((debug_info, declarations))) = (self.function(module, entry), &module.debug_info)
        else {
            return Vec::new();
        };
        let is_here = |address: CodeAddress| function.code.iter().any(|range| range.contains(&address.for_lookup()));
        let target = if scope.code.is_some_and(is_here) {
            self.evaluate(expression, scope)
        } else {
            let body = CodeAddress { pc: function.body.0, kind: CodeAddressKind::Exact };
            let scope = Scope { code: Some(body), registers: None, ..*scope };
            let locals = module.locals(debug_info, declarations, entry, Within::Function);
            self.evaluate_among(expression, &scope, &locals)
        };
        let site = |code| Site { code: Some(code), function: Some(function.name.clone()), target: target.clone() };
        function.code.iter().cloned().map(site).collect()
    }

    fn function_entries(&self, name: &str) -> Vec<(&ModuleVariables, &FunctionEntry)> {
        self.all_modules().flat_map(|module| functions_of(module, name)).collect()
    }

    fn function(&self, module: &ModuleVariables, entry: &FunctionEntry) -> Option<Function> {
        let (debug_info, declarations) = module.debug_info.as_ref()?;
        let loaded = self.space().module(module.module_idx);
        let guest = |address| loaded.guest_address(FileVma(address));
        let first = entry.ranges.first()?;
        Some(Function {
            name: declarations.function_name(debug_info, entry)?,
            module: module.module_idx,
            code: entry.ranges.iter().map(|range| guest(range.start)..guest(range.end)).collect(),
            body: guest(end_of_prologue(debug_info, entry.entry.unit, first)),
            declared: debug_info.declared(entry.entry),
        })
    }
}

fn functions_of<'a>(module: &'a ModuleVariables, name: &str) -> Vec<(&'a ModuleVariables, &'a FunctionEntry)> {
    let Some((debug_info, declarations)) = &module.debug_info else {
        return Vec::new();
    };
    let positions = declarations.functions_by_name.get(last_segment(name)).into_iter().flatten();
    let entries = positions.map(|position| &declarations.functions[*position]);
    let is_meant = |entry: &&FunctionEntry| {
        declarations.function_name(debug_info, entry).is_some_and(|full| name_matches(&full, name))
    };
    entries.filter(is_meant).map(|entry| (module, entry)).collect()
}
