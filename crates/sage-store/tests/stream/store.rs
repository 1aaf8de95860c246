//! The block store: files can be written, listed, read and deleted, and no path leads out of the store.

use bytes::Bytes;
use sage_store::blocks::{BlockStore, StoreError};

#[test]
fn every_backend_stores_lists_and_deletes_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = folder.path().join("new/blocks");
    let file_address = format!("file://{}", folder.path().join("by-address").display());
    for address in [address.to_str().expect("text"), &file_address, "memory:///blocks"] {
        let store = BlockStore::open(address).expect(address);
        let names = ["taxi/country=a%2Fb/part-2.parquet", "taxi/hour=2026-11-01T08/part-1.parquet"];
        for name in names {
            store.put(name, Bytes::from(name.to_owned())).expect("written");
        }
        store.write("taxi-other/x", Bytes::from_static(b"x")).expect("written");
        assert_eq!(store.list("taxi").expect("a list"), names, "{address}");
        assert_eq!(store.list("nothing").expect("a list"), Vec::<String>::new());
        for name in names {
            assert_eq!(store.read(name).expect("a file"), name);
        }
        store.write(names[0], Bytes::from_static(b"again")).expect("written");
        assert_eq!(store.read(names[0]).expect("a file"), "again");
        for name in names {
            store.delete(name).expect("deleted");
            store.delete(name).expect("deleted already");
            assert_eq!(store.read(name), Err(StoreError::Absent(name.to_owned())));
        }
        assert_eq!(store.list("taxi").expect("a list"), Vec::<String>::new());
        if let Some(root) = store.root() {
            assert!(!root.join("taxi").exists(), "empty folders are removed with their last file");
        }
    }
}

#[test]
fn no_path_leads_out_of_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = BlockStore::local(folder.path().join("blocks")).expect("a store");
    for path in ["", "..", "../x", "a/../../x", "/etc/x", "a//b", "./a", "a/.", "a\\b", "a\0b"] {
        let wrong = Err(StoreError::Path(path.to_owned()));
        assert_eq!(store.put(path, Bytes::new()), wrong, "{path:?}");
        assert_eq!(store.delete(path), wrong, "{path:?}");
    }
    assert!(matches!(BlockStore::open("gopher://x/y"), Err(StoreError::Address(_))));
}

/// `/dev/full` stands for a full disk.
#[test]
fn a_full_disk_is_reported_and_no_file_remains() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: this system has no /dev/full");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let store = BlockStore::local(folder.path()).expect("a store");
    std::fs::create_dir(folder.path().join("taxi")).expect("a folder");
    std::os::unix::fs::symlink(full, folder.path().join("taxi/part")).expect("a link");
    let error = store.write("taxi/part", Bytes::from_static(b"rows")).expect_err("a full disk");
    assert_eq!(error, StoreError::Full("taxi/part".to_owned()));
    assert!(error.to_string().contains("free some space"));
    assert_eq!(store.list("taxi").expect("a list"), Vec::<String>::new());
}
