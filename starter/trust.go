package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newTrust(a *app) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use: "trust [FOLDER]", Short: "Vouch for the configuration in a folder, or for a data folder",
		Long: `Remembers rgpt.yaml and rgpt.local.yaml of a folder (default: this one), as they are
now, as the operator's own. Commands that run there, and rgpt dev, use all of what
they say; of files that nobody trusted they use only what a repository may set, and
refuse the rest. After each change of a file it has to be trusted again.

Of a data folder (.rgpt) it remembers that you made it: one that came with an archive
or was moved here is not used before.

Files that are named with --config, and the base file of the configuration, need no
such word.`,
		Example: `  rgpt trust
  rgpt trust --remove ~/projects/tried`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if setup.IsDataDir(dir) && !remove {
				if err := setup.TrustDataDir(a.trusted(), dir); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "Trusted: the data folder %s\n", terminal.Clean(dir))
				return nil
			}
			if remove {
				if err := a.trusted().Remove(append(configNames(dir), setup.OwnerFile(dir))...); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "The configuration in %s is trusted no longer.\n", terminal.Clean(dir))
				return nil
			}
			files := configFiles(dir)
			if len(files) == 0 {
				return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "there is no %s in %s to trust", config.FileName, dir)
			}
			if _, err := config.Load(config.Sources{Dir: dir, Env: a.env}); err != nil {
				return err
			}
			if err := a.trusted().Add(files...); err != nil {
				return err
			}
			for _, file := range files {
				fmt.Fprintf(a.out, "Trusted as it is now: %s\n", terminal.Clean(file))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "trust them no longer")
	return cmd
}

// configNames are the files of a folder that may hold configuration.
func configNames(dir string) []string {
	return []string{filepath.Join(dir, config.FileName), filepath.Join(dir, config.LocalName)}
}

// configFiles are those that exist.
func configFiles(dir string) (found []string) {
	for _, file := range configNames(dir) {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			found = append(found, file)
		}
	}
	return found
}
