package pin_test

import "testing"

func TestRustPropertiesArePinned(t *testing.T) {
	t.Parallel()
	const sorts = "    fn sorts(v: Vec<u8>) -> bool {\n        sorted(&sort(v))\n    }\n"
	const keeps = "    fn keeps_length(v: Vec<u8>) -> () {\n        assert_eq!(sort(v.clone()).len(), v.len());\n    }\n"
	const checked = "quickcheck! {\n" + sorts + keeps + "}\n"
	const proposed = "proptest! {\n    #[test]\n" + keeps + "}\n"
	const helper = "macro_rules! quickcheck {\n    (fn $f:ident) => { fn run() { quickcheck!(@fn) } };\n}\n"
	try(t, []example{
		one("quickcheck: deleted", "tests/quick.rs", checked, with(checked, sorts, ""), "deleted sorts"),
		one("quickcheck: its result says nothing", "tests/quick.rs", checked, with(checked, " -> bool", "", "sorted(&sort(v))", "sort(v);"), "emptied sorts"),
		one("quickcheck: emptied", "tests/quick.rs", checked, with(checked, "        assert_eq!(sort(v.clone()).len(), v.len());\n", ""), "emptied keeps_length"),
		one("quickcheck: its definition is no test", "tests/quick.rs", helper+checked, checked),
		one("proptest: deleted", "tests/prop.rs", proposed, "proptest! {\n}\n", "deleted keeps_length"),
		one("proptest: ignored", "tests/prop.rs", proposed, with(proposed, "#[test]", "#[test]\n    #[ignore]"), "skipped keeps_length"),
		{"moved to a benchmark, which runs no tests", []change{{"tests/zip.rs", "#[test]\nfn zips() {\n    assert_eq!(zip(1), 2);\n}\n", gone},
			{"benches/zip.rs", gone, "#[test]\nfn zips() {\n    assert_eq!(zip(1), 2);\n}\n"}}, []string{"renamed_away zips"}},
	})
}
