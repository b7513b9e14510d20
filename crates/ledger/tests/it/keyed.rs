//! Transactions under keys, operation ids and promises.

use indelible_ledger::{
    Actor, Application, Limits, Origin, OriginId, OriginRecord, OriginVerdict, Proposal,
    TransactionId, Vault,
};

use crate::support::{Entities, add, at, euro, incarnation, scope, set, single};

/// C-5, C-9: under a key the same request gets what it got, a refusal too; another one is a mismatch.
#[test]
fn a_key_is_used_up_by_a_refusal() {
    let mut vault = Vault::new(&scope(), incarnation());
    let mut entities = Entities::default();
    let mut apply = |request: &indelible_ledger::Request| {
        let origin = Origin::Key(OriginId::new("order-1").unwrap());
        let (id, actor) = (TransactionId::from_bytes([1; 16]), Actor::new("client:app"));
        let proposal = Proposal { id, origin, request: request.clone(), actor };
        match vault.apply(proposal, at(1), &Limits::DEFAULT, &mut entities).unwrap() {
            Application::Applied(applied) => {
                entities.store(&applied);
                OriginRecord::Committed(applied.receipt)
            }
            Application::Refused(refusal) => {
                OriginRecord::Refused { hash: request.hash(), refusal }
            }
        }
    };
    let (open, pay) = (single(vec![set("account", euro(0))]), single(vec![add("account", 1)]));
    assert_eq!(OriginRecord::judge(None, pay.hash()), OriginVerdict::Fresh);
    let refused = apply(&pay);
    let verdict = OriginRecord::judge(Some(&refused), pay.hash());
    assert!(matches!(verdict, OriginVerdict::PriorError(_)));
    assert_eq!(OriginRecord::judge(Some(&refused), open.hash()), OriginVerdict::Mismatch);
    let committed = apply(&open);
    let verdict = OriginRecord::judge(Some(&committed), open.hash());
    assert!(
        matches!(verdict, OriginVerdict::PriorResult(receipt) if receipt.success.height.get() == 1)
    );
    assert_eq!(OriginRecord::judge(Some(&committed), pay.hash()), OriginVerdict::Mismatch);
}
