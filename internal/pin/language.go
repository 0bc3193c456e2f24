package pin

// language says how the tests of a language are found and read.
type language struct {
	// name keeps apart what languages that cannot call each other define.
	name string
	// extensions are those of its files, with the dot.
	extensions []string
	// runs reports whether a test runner looks for tests in the file at a path.
	runs func(path string) bool
	// supports reports whether the file at a path is code that tests call; nil: none is.
	supports func(path string) bool
	// parse reads a file.
	parse func(s *suite, data []byte)
	// runsAlone reports whether a runner can run a new test without the others; nil
	// where no runner of the language can.
	runsAlone func(u *unit) bool
	// settings are the files of its tools that say which tests run.
	settings []settingsRule
	// folderScope: functions are known within a folder, else everywhere.
	folderScope bool
	// besideCode: tests stand in the files of the code that they test.
	besideCode bool
	// ignoreHelpers: code outside tests is not judged.
	ignoreHelpers bool
}
