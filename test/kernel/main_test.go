package kernel

import (
	"os"
	"testing"

	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, Prepare)) }
