package temporal

import "go.temporal.io/sdk/converter"

// Converter returns the data converter for histories, the same for every client and
// worker of an installation.
func Converter() converter.DataConverter { return converter.GetDefaultDataConverter() }
