//! Functions whose calls mean something: locks, semaphores, threads, memory.

use serde::{Deserialize, Serialize};

/// What a function does, as far as others can see it. Objects are its first argument unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Takes a lock if it returns 0, or the number that says that the last owner died.
    Lock,
    LockShared,
    Unlock,
    /// Gives the lock of its second argument up while it waits, and has it again whatever it returns.
    WaitUnlocked,
    /// Everybody leaves after everybody has come.
    Barrier,
    /// Lets somebody pass who waits.
    Post,
    /// Passes if it returns 0.
    Pass,
    /// The object is new, or no more.
    Forget,
    /// Makes a thread: what it prepares is nobody else's business before that thread runs.
    Create,
    /// Waits for the end of the thread that the first argument names by its thread pointer.
    Join,
    /// Returns a block of as many bytes as the first argument says.
    Allocate,
    /// The same, of the first argument times the second.
    AllocateArray,
    /// The same, of the second argument.
    AllocateAligned,
    /// Stores the address of a block through its first argument, of as many bytes as the third says, if it returns 0.
    AllocateThrough,
    /// Moves the block of the first argument into one of as many bytes as the second says.
    Reallocate,
    /// The same, of the second times the third.
    ReallocateArray,
    Free,
    /// Returns a block, as somebody who knows the function has told.
    AllocateTold(BlockSize),
    /// Takes the block back that is this argument, from 0.
    FreeTold(usize),
}

/// How large a block is that a function returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BlockSize {
    /// As many bytes as this argument says, from 0.
    Argument(usize),
    Bytes(u64),
}

impl Role {
    /// Whether what the function does inside is nobody else's business.
    pub fn is_allocator(self) -> bool {
        use Role::{Allocate, AllocateAligned, AllocateArray, AllocateThrough, AllocateTold};
        use Role::{Free, FreeTold, Reallocate, ReallocateArray};
        let hands_out = matches!(self, Allocate | AllocateArray | AllocateAligned | AllocateThrough | AllocateTold(_));
        hands_out || matches!(self, Reallocate | ReallocateArray | Free | FreeTold(_))
    }
}

/// The role of a function by its symbol's name.
pub fn role_of(name: &str) -> Option<Role> {
    ROLES.iter().find(|(_, names)| names.contains(&name)).map(|(role, _)| *role)
}

/// C++ names are those of all forms of `operator new` and `operator delete`, mangled.
const ROLES: &[(Role, &[&str])] = &[
    (
        Role::Lock,
        &[
            "pthread_mutex_lock",
            "pthread_mutex_trylock",
            "pthread_mutex_timedlock",
            "pthread_mutex_clocklock",
            "pthread_rwlock_wrlock",
            "pthread_rwlock_trywrlock",
            "pthread_rwlock_timedwrlock",
            "pthread_rwlock_clockwrlock",
            "pthread_spin_lock",
            "pthread_spin_trylock",
            "mtx_lock",
            "mtx_trylock",
            "mtx_timedlock",
        ],
    ),
    (
        Role::LockShared,
        &[
            "pthread_rwlock_rdlock",
            "pthread_rwlock_tryrdlock",
            "pthread_rwlock_timedrdlock",
            "pthread_rwlock_clockrdlock",
        ],
    ),
    (Role::Unlock, &["pthread_mutex_unlock", "pthread_rwlock_unlock", "pthread_spin_unlock", "mtx_unlock"]),
    (
        Role::WaitUnlocked,
        &["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait"],
    ),
    (Role::Barrier, &["pthread_barrier_wait"]),
    (Role::Post, &["sem_post"]),
    (Role::Pass, &["sem_wait", "sem_trywait", "sem_timedwait", "sem_clockwait"]),
    (
        Role::Forget,
        &[
            "pthread_mutex_init",
            "pthread_mutex_destroy",
            "pthread_rwlock_init",
            "pthread_rwlock_destroy",
            "pthread_spin_init",
            "pthread_spin_destroy",
            "pthread_barrier_init",
            "pthread_barrier_destroy",
            "sem_init",
            "sem_destroy",
            "mtx_init",
            "mtx_destroy",
        ],
    ),
    (Role::Create, &["pthread_create", "thrd_create"]),
    (Role::Join, &["pthread_join", "pthread_timedjoin_np", "pthread_tryjoin_np", "pthread_clockjoin_np", "thrd_join"]),
    (
        Role::Allocate,
        &[
            "malloc",
            "valloc",
            "pvalloc",
            "_Znwm",
            "_Znam",
            "_ZnwmRKSt9nothrow_t",
            "_ZnamRKSt9nothrow_t",
            "_ZnwmSt11align_val_t",
            "_ZnamSt11align_val_t",
            "_ZnwmSt11align_val_tRKSt9nothrow_t",
            "_ZnamSt11align_val_tRKSt9nothrow_t",
        ],
    ),
    (Role::AllocateArray, &["calloc"]),
    (Role::AllocateAligned, &["memalign", "aligned_alloc"]),
    (Role::AllocateThrough, &["posix_memalign"]),
    (Role::Reallocate, &["realloc"]),
    (Role::ReallocateArray, &["reallocarray"]),
    (
        Role::Free,
        &[
            "free",
            "cfree",
            "_ZdlPv",
            "_ZdaPv",
            "_ZdlPvm",
            "_ZdaPvm",
            "_ZdlPvRKSt9nothrow_t",
            "_ZdaPvRKSt9nothrow_t",
            "_ZdlPvSt11align_val_t",
            "_ZdaPvSt11align_val_t",
            "_ZdlPvmSt11align_val_t",
            "_ZdaPvmSt11align_val_t",
            "_ZdlPvSt11align_val_tRKSt9nothrow_t",
            "_ZdaPvSt11align_val_tRKSt9nothrow_t",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_role() {
        let mut names: Vec<&str> = ROLES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(role_of("pthread_cond_wait"), Some(Role::WaitUnlocked));
        assert_eq!(role_of("printf"), None);
    }
}
