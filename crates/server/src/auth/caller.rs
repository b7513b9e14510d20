//! Who is calling, what they may do, and where: the same for every kind of credential.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use indelible_api::access::{Role, WhoAmI};
use indelible_idempotency::{ConsumerNamespace, NamespaceError};
use indelible_runtime::Actor;

/// The word for all namespaces.
pub const ALL_NAMESPACES: &str = "*";

/// The most namespaces that one credential can name, since every credential is in memory. A client
/// that needs more gets `*` or several credentials.
pub const NAMESPACES_MAX: usize = 64;

/// A set of roles.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// Every role.
    pub fn all() -> Self {
        Role::ALL.into_iter().collect()
    }

    /// Whether the set names no role.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set names this role itself.
    pub fn names(self, role: Role) -> bool {
        self.0 & Self::bit(role) != 0
    }

    /// Whether a caller with these roles may do what takes this role. An admin may do everything.
    pub fn may(self, role: Role) -> bool {
        self.names(role) || self.names(Role::Admin)
    }

    /// The roles that the set names, in the order of [`Role::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.names(*role))
    }

    const fn bit(role: Role) -> u8 {
        match role {
            Role::Call => 1,
            Role::Operate => 2,
            Role::Deploy => 4,
            Role::Admin => 8,
            Role::Read => 16,
            Role::Write => 32,
            Role::Send => 64,
            Role::Decide => 128,
        }
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | Self::bit(role)))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Where a credential is good. Clones are cheap: one is made for every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Everywhere.
    All,
    /// In these.
    Some(Arc<BTreeSet<ConsumerNamespace>>),
}

impl Namespaces {
    /// The names, in order; `*` for all of them.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::All => vec![ALL_NAMESPACES.to_owned()],
            Self::Some(names) => names.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Why a credential cannot have these roles and namespaces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// It could do nothing.
    #[error("no role was given")]
    NoRoles,
    /// It would be good nowhere.
    #[error("no namespace was given")]
    NoNamespaces,
    /// More than [`NAMESPACES_MAX`].
    #[error("{0} namespaces were given; at most {NAMESPACES_MAX} are allowed (* stands for all)")]
    ManyNamespaces(usize),
    /// `*` and a name.
    #[error("* stands for all namespaces and cannot be combined with others")]
    AllAndMore,
    /// An invalid name.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// Components and credentials belong to the whole server.
    #[error("the role {} acts on the whole server, so the namespaces must be [\"*\"]", .0.as_str())]
    WholeServer(Role),
}

/// What a credential gives: roles, and the namespaces in which they hold. [`Grant::new`] checks the
/// rules for every kind of credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    roles: Roles,
    namespaces: Namespaces,
}

impl Grant {
    /// These roles in these namespaces, of which `*` is all.
    pub fn new(roles: &[Role], namespaces: &[String]) -> Result<Self, GrantError> {
        let roles: Roles = roles.iter().copied().collect();
        if roles.is_empty() {
            return Err(GrantError::NoRoles);
        }
        let namespaces = match namespaces {
            [] => return Err(GrantError::NoNamespaces),
            [all] if all == ALL_NAMESPACES => Namespaces::All,
            many if many.len() > NAMESPACES_MAX => {
                return Err(GrantError::ManyNamespaces(many.len()));
            }
            some if some.iter().any(|name| name == ALL_NAMESPACES) => {
                return Err(GrantError::AllAndMore);
            }
            some => {
                let names = some.iter().map(|name| ConsumerNamespace::new(name.as_str()));
                Namespaces::Some(Arc::new(names.collect::<Result<_, _>>()?))
            }
        };
        if namespaces != Namespaces::All {
            for role in [Role::Deploy, Role::Admin] {
                if roles.names(role) {
                    return Err(GrantError::WholeServer(role));
                }
            }
        }
        Ok(Self { roles, namespaces })
    }

    /// The roles.
    pub fn roles(&self) -> Roles {
        self.roles
    }

    /// Where they are good.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }
}

/// Who is calling: derived from the credential, never from what the request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    actor: Actor,
    grant: Grant,
}

impl Caller {
    pub(super) fn new(actor: Actor, grant: Grant) -> Self {
        Self { actor, grant }
    }

    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The caller of every request to an open server, which listens on loopback alone and has no
    /// keys.
    pub fn local() -> Self {
        let grant = Grant { roles: Roles::all(), namespaces: Namespaces::All };
        Self { actor: Actor::new("system:local"), grant }
    }

    /// Who: `user:…`, `client:…` or `system:…`. This is what an audit record says.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// What they may do.
    pub fn roles(&self) -> Roles {
        self.grant.roles
    }

    /// The namespaces in which they may do it.
    pub fn namespaces(&self) -> &Namespaces {
        &self.grant.namespaces
    }

    /// Whether they may do what takes this role.
    pub fn may(&self, role: Role) -> bool {
        self.grant.roles.may(role)
    }

    /// Whether they may do it in this namespace.
    pub fn in_namespace(&self, namespace: &str) -> bool {
        match &self.grant.namespaces {
            Namespaces::All => true,
            Namespaces::Some(names) => names.iter().any(|name| name.as_str() == namespace),
        }
    }

    /// The namespace of a request that names none, if the credential has exactly one.
    pub fn only_namespace(&self) -> Option<&ConsumerNamespace> {
        match &self.grant.namespaces {
            Namespaces::Some(names) if names.len() == 1 => names.first(),
            _ => None,
        }
    }
}

impl From<&Caller> for WhoAmI {
    fn from(caller: &Caller) -> Self {
        Self {
            actor: caller.actor.as_str().to_owned(),
            roles: caller.roles().iter().collect(),
            namespaces: caller.namespaces().names(),
        }
    }
}

/// Whether a text can name an actor in an audit record: 1 to `chars_max` visible ASCII characters.
/// Other characters could make one name look like another.
pub(super) fn is_name(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(roles: &[Role], namespaces: &[&str]) -> Result<Grant, GrantError> {
        let namespaces: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
        Grant::new(roles, &namespaces)
    }

    /// A role gives itself alone; admin gives all of them.
    #[test]
    fn what_roles_give() {
        for given in Role::ALL {
            let roles: Roles = [given].into_iter().collect();
            for asked in Role::ALL {
                let expected = given == asked || given == Role::Admin;
                assert_eq!(roles.may(asked), expected, "{given:?} {asked:?}");
            }
        }
        assert!(!Role::ALL.into_iter().any(|role| Roles::default().may(role)));
        let two: Roles = [Role::Operate, Role::Call, Role::Call].into_iter().collect();
        assert_eq!(two.iter().collect::<Vec<_>>(), [Role::Call, Role::Operate]);
    }

    /// What acts on the whole server takes all namespaces; names are checked.
    #[test]
    fn what_a_grant_may_be() {
        use Role::{Admin, Call, Deploy, Operate};
        assert!(grant(&[Call, Operate], &["a", "b", "a"]).is_ok());
        assert!(grant(&[Call, Admin, Deploy], &["*"]).is_ok());
        assert_eq!(grant(&[], &["a"]), Err(GrantError::NoRoles));
        assert_eq!(grant(&[Call], &[]), Err(GrantError::NoNamespaces));
        assert_eq!(grant(&[Call], &["*", "a"]), Err(GrantError::AllAndMore));
        assert_eq!(grant(&[Call], &["*", "*"]), Err(GrantError::AllAndMore));
        assert_eq!(grant(&[Call, Deploy], &["a"]), Err(GrantError::WholeServer(Deploy)));
        assert_eq!(grant(&[Admin], &["a"]), Err(GrantError::WholeServer(Admin)));
        assert!(matches!(grant(&[Call], &["A"]), Err(GrantError::Namespace(_))));
        assert!(matches!(grant(&[Call], &["a", ""]), Err(GrantError::Namespace(_))));
        let many = vec!["a"; NAMESPACES_MAX + 1];
        assert!(grant(&[Call], &many[1..]).is_ok());
        assert_eq!(grant(&[Call], &many), Err(GrantError::ManyNamespaces(NAMESPACES_MAX + 1)));
    }

    /// A caller with one namespace need not name it; a caller with several, or with all, must.
    #[test]
    fn where_a_caller_is() {
        let caller = |names: &[&str]| {
            Caller::new(Actor::new("client:x"), grant(&[Role::Call], names).unwrap())
        };
        let one = caller(&["shop"]);
        assert_eq!(one.only_namespace().map(ConsumerNamespace::as_str), Some("shop"));
        assert!(one.in_namespace("shop"));
        for other in ["sho", "shop2", "", "*", "SHOP"] {
            assert!(!one.in_namespace(other), "{other}");
        }
        let two = caller(&["shop", "bank"]);
        assert_eq!(two.only_namespace(), None);
        assert!(two.in_namespace("bank"));
        let all = caller(&["*"]);
        assert_eq!(all.only_namespace(), None);
        assert!(all.in_namespace("anything"));
        assert_eq!(WhoAmI::from(&two).namespaces, ["bank", "shop"]);
        assert_eq!(WhoAmI::from(&Caller::local()).roles, Role::ALL);
    }
}
