//! State files that are missing, torn, foreign, or in use: each is told apart, and nothing is sent.

use std::fs;

use indelible_client::{IfMissing, Operations, SequencedError, StateFileError};
use serde_json::json;

use super::house::House;

fn one() -> Operations {
    Operations::single(&json!([{"add": {"key": "a", "delta": 1, "unit": "EUR"}}]))
}

fn file_error(error: SequencedError) -> StateFileError {
    match error {
        SequencedError::File(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Q-11: a file that was lost is noticed, because the server knows the client. The user says when to
/// go on with what the server knows: its last number, and an attempt that no refusal has reached.
#[tokio::test]
async fn a_lost_file() {
    let (house, folder) = (House::new().await, tempfile::tempdir().unwrap());
    let at = folder.path().join("deep/down");
    let mut writer = house.writer(&at).await.unwrap();
    writer.transact(one()).await.unwrap();
    let none = json!([{"add": {"key": "a", "delta": -9, "min": 0}}]);
    writer.transact(Operations::single(&none)).await.unwrap_err();
    drop(writer);
    fs::remove_file(at.join("till-1.state")).unwrap();
    let error = house.writer(&at).await.unwrap_err();
    assert!(matches!(error, SequencedError::FileMissing { last: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("client \"till-1\" in shop/wallets of http://"), "{error}");
    let mut writer = house.writer(&at).if_missing(IfMissing::AskServer).await.unwrap();
    writer.transact(one()).await.unwrap();
    let last = house.world().seen.pop().unwrap();
    assert!(last.body.contains(r#""sequence":2,"attempt":2"#), "{}", last.body);
    // A vault that knows nothing of the client is a first time.
    let house = House::new().await;
    house.writer(&at.join("new")).await.unwrap().transact(one()).await.unwrap();
}

/// A file that was cut off or changed is never used, and neither is one of something else.
#[tokio::test]
async fn files_that_cannot_be_used() {
    let (house, folder) = (House::new().await, tempfile::tempdir().unwrap());
    house.writer(folder.path()).await.unwrap().transact(one()).await.unwrap();
    house.world().seen.clear();
    let file = folder.path().join("till-1.state");
    let whole = fs::read(&file).unwrap();
    let open = async |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        file_error(house.writer(folder.path()).await.unwrap_err())
    };
    let mut changed = whole.clone();
    changed[70] ^= 1;
    for bytes in [&whole[..whole.len() - 1], &changed, b"", b"hello\n"] {
        let error = open(bytes).await;
        assert!(matches!(error, StateFileError::Torn { .. }), "{error:?}");
    }
    fs::write(&file, &whole).unwrap();
    // Another client, vault, namespace or server.
    let shop = house.ledger();
    let others = [
        shop.sequenced("till-2", &file),
        house.client().vault("other").sequenced("till-1", &file),
        house.client().ledger().sequenced("till-1", &file),
        house.client().in_namespace("b").unwrap().vault("wallets").sequenced("till-1", &file),
        shop.sequenced("till-1", &file).server_name("prod"),
    ];
    for other in others {
        let error = file_error(other.await.unwrap_err());
        assert!(matches!(error, StateFileError::Foreign { .. }), "{error:?}");
    }
    assert!(house.world().seen.is_empty());
    // The server has moved: it is called what it was called before.
    let moved = House::new().await;
    let named = moved.writer(folder.path()).server_name(house.ledger_address());
    named.await.unwrap();
    // The path leads nowhere.
    let error = file_error(shop.sequenced("till-1", file.join("x")).await.unwrap_err());
    assert!(matches!(error, StateFileError::Io { .. }), "{error:?}");
}

/// Two writers with one file would use the same numbers.
#[tokio::test]
async fn a_file_in_use() {
    let (house, folder) = (House::new().await, tempfile::tempdir().unwrap());
    let writer = house.writer(folder.path()).await.unwrap();
    let error = file_error(house.writer(folder.path()).await.unwrap_err());
    assert!(matches!(error, StateFileError::InUse { .. }), "{error:?}");
    drop(writer);
    house.writer(folder.path()).await.unwrap();
}

/// A disk that takes nothing: nothing is sent, and the request goes on once it does.
#[tokio::test]
async fn a_disk_that_takes_nothing() {
    let (house, folder) = (House::new().await, tempfile::tempdir().unwrap());
    let mut writer = house.writer(folder.path()).await.unwrap();
    // A folder where the new file would be.
    let aside = folder.path().join("till-1.state.new");
    fs::create_dir(&aside).unwrap();
    let error = file_error(writer.transact(one()).await.unwrap_err());
    assert!(matches!(error, StateFileError::Io { .. }), "{error:?}");
    assert!(house.world().seen.is_empty());
    fs::remove_dir(&aside).unwrap();
    let (request, end) = writer.resume().await.unwrap().unwrap();
    assert_eq!((request.first, end.committed.len()), (1, 1));
}
