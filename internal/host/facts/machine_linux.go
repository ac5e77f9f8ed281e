package facts

import (
	"context"
	"os"

	"linerate/internal/core/model"
)

func readMachine(context.Context) model.Machine { return linuxMachine(os.DirFS("/")) }
