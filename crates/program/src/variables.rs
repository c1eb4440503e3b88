//! Variables of a program: by name, by address, and those in scope at a code address.
//!
//! Debug information is asked first; a module without any still has the names and sizes in its symbol tables.
//!
//! May go wrong: a variable of a library that the linker has copied into the program (`stdout` of a fixed-address
//! program) is found twice, and the copy that is used has no type. Thread-local variables of libraries have an offset but
//! no address. Debug information in `.dwo` files is not read.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub use crate::debug_info::SourceLine;
use crate::debug_info::{DebugInfo, EntryId};
use crate::declarations::{Declarations, FixedPlace, FunctionEntry};
use crate::locations::{self, Located, LocationFrame};
use crate::module_variables::{Found, ModuleVariables};
pub use crate::places::{Piece, Place, RegisterNumber};
use crate::qualified_names::{last_segment, name_matches};
use crate::scopes::{self, LocalEntry, Within};
use crate::space::{AddressSpace, FileVma, GuestAddress, ModuleIdx};
use crate::types::{Type, TypeId, TypeKind};
use crate::unwind::{CodeAddress, Memory, Registers};

/// What is known of the moment at which something is looked up. The default is nothing: only what has a fixed place can
/// then be told.
#[derive(Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Where the thread is; decides which locals exist, and which of several variables of one name is nearest.
    pub code: Option<CodeAddress>,
    /// Those of the frame that `code` is in.
    pub registers: Option<&'a Registers>,
    pub memory: Option<&'a dyn Memory>,
    /// The thread's FS base.
    pub thread_pointer: Option<u64>,
    /// What the stack pointer was before the call that made the frame, where it is known without `registers`.
    pub frame_address: Option<u64>,
}

/// A variable that exists as long as the program or a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Qualified: `shapes::Box::count`, `main::calls` for a static variable of a function.
    pub name: String,
    /// `None` if only a symbol table knows the variable.
    pub type_id: Option<TypeId>,
    /// 0 if not known.
    pub size: u64,
    pub place: GlobalPlace,
    pub module: ModuleIdx,
    pub declared: Option<SourceLine>,
    /// The unit that declares it, to tell variables of one name apart.
    pub(crate) unit: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GlobalPlace {
    /// As the file states it; [`crate::space::Module::guest_address`] makes it an address of the running program.
    Address(FileVma),
    /// Bytes from the start of the block that every thread has for the module.
    ThreadLocal(u64),
}

/// A local variable or parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub name: String,
    pub type_id: TypeId,
    pub size: Option<u64>,
    pub parameter: bool,
    /// Qualified name of the function that declares it.
    pub function: String,
    /// Whether that function's code is inlined into the function whose frame holds the variable.
    pub inlined: bool,
    pub declared: Option<SourceLine>,
    pub(crate) entry: EntryId,
    pub(crate) frame_function: EntryId,
}

/// Answers for one address space; keeps what it has read.
pub struct Variables {
    space: AddressSpace,
    modules: BTreeMap<ModuleIdx, OnceCell<ModuleVariables>>,
    types: RefCell<BTreeMap<TypeId, Rc<Type>>>,
}

impl Variables {
    pub fn new(space: &AddressSpace) -> Variables {
        let modules = space.modules().map(|(module_idx, _)| (module_idx, OnceCell::new())).collect();
        Variables { space: space.clone(), modules, types: RefCell::default() }
    }

    pub fn space(&self) -> &AddressSpace {
        &self.space
    }

    /// Every global, static and thread-local variable of that name, qualified or not: `counter`, `stats::counter`.
    pub fn globals_named(&self, name: &str) -> Vec<Global> {
        let of_module = |module: &ModuleVariables| -> Vec<Global> {
            module.named(name).into_iter().filter_map(|found| global(module, found)).collect()
        };
        self.all_modules().flat_map(of_module).collect()
    }

    /// The global variable that an address is in, and the distance from its start. Thread-local ones are not found so.
    pub fn global_at(&self, address: GuestAddress) -> Option<(Global, u64)> {
        let (module_idx, file_vma) = self.space.locate(address)?;
        let module = self.module(module_idx)?;
        let global = global(module, module.covering(file_vma.0)?)?;
        match global.place {
            GlobalPlace::Address(start) => Some((global, file_vma.0.checked_sub(start.0)?)),
            GlobalPlace::ThreadLocal(_) => None,
        }
    }

    /// The thread-local variable that an offset in a module's block is in.
    pub(crate) fn thread_local_covering(&self, module_idx: ModuleIdx, offset: u64) -> Option<Global> {
        let module = self.module(module_idx)?;
        global(module, module.thread_local_covering(offset)?)
    }

    /// Where a global is; thread-local ones need the thread pointer, and to belong to the program itself.
    pub fn global_place(&self, global: &Global, scope: &Scope<'_>) -> Place {
        match global.place {
            GlobalPlace::Address(address) => Place::Address(self.space.module(global.module).guest_address(address)),
            GlobalPlace::ThreadLocal(offset) => {
                let module = self.module(global.module);
                let start = module.zip(scope.thread_pointer).and_then(|(module, fs)| module.thread_local_start(fs));
                match start {
                    Some(start) => Place::Address(GuestAddress(start.wrapping_add(offset))),
                    None => Place::ThreadLocal { module: global.module, offset },
                }
            }
        }
    }

    /// The variables and parameters in scope, the innermost block's first. Those of the functions that the code was
    /// inlined into follow.
    pub fn locals(&self, code: CodeAddress) -> Vec<Local> {
        let Some((module_idx, file_vma)) = self.space.locate(code.for_lookup()) else {
            return Vec::new();
        };
        let Some((module, debug_info, declarations)) = self.debug_module(module_idx) else {
            return Vec::new();
        };
        let Some(function) = declarations.function_at(file_vma.0) else {
            return Vec::new();
        };
        module.locals(debug_info, declarations, function, Within::Address(file_vma.0))
    }

    /// Where a local is at a moment of which `scope` says what is known; `None` if it says too little.
    pub fn place(&self, local: &Local, scope: &Scope<'_>) -> Option<Place> {
        let module_idx = local.type_id.module;
        let (module, debug_info, _) = self.debug_module(module_idx)?;
        let frame = LocationFrame {
            module_idx,
            module: self.space.module(module_idx),
            address: scope.code.map(|code| self.space.module(module_idx).file_vma(code.for_lookup())),
            function: Some(local.frame_function),
            registers: scope.registers,
            memory: scope.memory,
            frame_address: scope.frame_address,
            thread_local_start: scope.thread_pointer.and_then(|pointer| module.thread_local_start(pointer)),
        };
        match locations::locate(debug_info, &frame, local.entry, local.size) {
            Located::At(place) => Some(place),
            Located::NeedsFrame => None,
        }
    }

    pub fn type_of(&self, type_id: TypeId) -> Rc<Type> {
        if let Some(known) = self.types.borrow().get(&type_id) {
            return Rc::clone(known);
        }
        let reader = self.module(type_id.module).and_then(ModuleVariables::type_reader);
        let unknown = || Type { name: "?".to_owned(), size: None, kind: TypeKind::Unknown };
        let read = Rc::new(reader.map_or_else(unknown, |reader| reader.read(type_id)));
        self.types.borrow_mut().insert(type_id, Rc::clone(&read));
        read
    }

    /// Structures, unions, enumerations and `typedef`s of that name, qualified or not, without `struct` in front. One for
    /// every unit that defines it, those of the program first.
    pub fn types_named(&self, name: &str) -> Vec<TypeId> {
        let of_module = |module: &ModuleVariables| -> Vec<TypeId> {
            let Some((debug_info, declarations)) = &module.debug_info else {
                return Vec::new();
            };
            let found = declarations.types_by_name.get(last_segment(name)).into_iter().flatten();
            let matching =
                found.filter(|id| declarations.name_of(debug_info, **id).is_some_and(|full| name_matches(&full, name)));
            matching.map(|id| TypeId::new(module.module_idx, Some(*id))).collect()
        };
        self.all_modules().flat_map(of_module).collect()
    }

    /// The names of all globals, unqualified.
    pub(crate) fn global_names(&self) -> BTreeSet<&str> {
        let declared = self.all_modules().filter_map(|module| module.debug_info.as_ref());
        let declared = declared.flat_map(|(_, declarations)| declarations.variables_by_name.keys());
        let symbols = self.all_modules().flat_map(|module| module.symbols.names());
        declared.chain(symbols).map(String::as_str).collect()
    }

    /// Those of the program itself come before those of libraries.
    pub(crate) fn all_modules(&self) -> impl Iterator<Item = &ModuleVariables> {
        let mut modules: Vec<_> = self.modules.keys().filter_map(|module_idx| self.module(*module_idx)).collect();
        modules.sort_by_key(|module| (!module.is_program, module.module_idx));
        modules.into_iter()
    }

    pub(crate) fn module(&self, module_idx: ModuleIdx) -> Option<&ModuleVariables> {
        let load = || ModuleVariables::load(module_idx, self.space.module(module_idx));
        Some(self.modules.get(&module_idx)?.get_or_init(load))
    }

    pub(crate) fn debug_module(&self, module_idx: ModuleIdx) -> Option<(&ModuleVariables, &DebugInfo, &Declarations)> {
        let module = self.module(module_idx)?;
        module.debug_info.as_ref().map(|(debug_info, declarations)| (module, debug_info, declarations))
    }
}

impl ModuleVariables {
    pub(crate) fn locals(
        &self,
        debug_info: &DebugInfo,
        declarations: &Declarations,
        function: &FunctionEntry,
        within: Within,
    ) -> Vec<Local> {
        let mut names: BTreeMap<EntryId, String> = BTreeMap::new();
        let mut read = |local: LocalEntry| {
            let name_of = || declarations.name_of(debug_info, local.declaring).unwrap_or_else(|| "?".to_owned());
            let function_name = names.entry(local.declaring).or_insert_with(name_of).clone();
            let type_id = TypeId::new(self.module_idx, debug_info.type_of(local.entry));
            Some(Local {
                name: debug_info.name(local.entry)?,
                type_id,
                size: self.type_reader()?.size(type_id),
                parameter: local.parameter,
                function: function_name,
                inlined: local.inlined,
                declared: debug_info.declared(local.entry),
                entry: local.entry,
                frame_function: function.entry,
            })
        };
        let locals = scopes::locals(debug_info, function.entry, within);
        locals.into_iter().filter_map(&mut read).collect()
    }
}

fn global(module: &ModuleVariables, found: Found<'_>) -> Option<Global> {
    let place = |place| match place {
        FixedPlace::Address(address) => GlobalPlace::Address(FileVma(address)),
        FixedPlace::ThreadLocal(offset) => GlobalPlace::ThreadLocal(offset),
    };
    Some(match found {
        Found::Symbol(symbol) => Global {
            name: symbol.name.clone(),
            type_id: None,
            size: symbol.size,
            place: place(symbol.place),
            module: module.module_idx,
            declared: None,
            unit: None,
        },
        Found::Declared(position, variable) => {
            let (debug_info, declarations) = module.debug_info.as_ref()?;
            Global {
                name: declarations.variable_name(debug_info, variable)?,
                type_id: debug_info.type_of(variable.entry).map(|id| TypeId::new(module.module_idx, Some(id))),
                size: module.size(position),
                place: place(variable.place),
                module: module.module_idx,
                declared: debug_info.declared(variable.entry),
                unit: Some(debug_info.declaring_unit(variable.entry)),
            }
        }
    })
}
