// Package machine starts whole machines in QEMU, with a kernel of their own and emulated
// network cards, for tests that a namespace cannot run: drivers, resets, other systems. It is a
// test harness; no released program contains it.
//
//	m, err := machine.Start(ctx, machine.Config{Name: "near", Kernel: vmlinuz, Initrd: []string{initrd},
//		Append: "console=ttyS0", Disks: []string{"root.img"}, Dir: t.TempDir(),
//		Cards: []machine.Card{{Model: "e1000", MAC: "52:54:00:00:00:01", Cable: cable}}})
//	defer m.Close()                                 // kills it; nothing is left
//	err = m.Wait(ctx)                               // until its agent answers
//	got, err := m.Run(ctx, "ip", "-json", "link")   // got.Stdout, got.Stderr, got.Code
//	err = m.Put(ctx, "/tmp/plan.yaml", text, 0o644) // and Get
//	err = m.SetLink("n0", false)                    // pull the cable of the first card
//	err = m.Reset(ctx)                              // the button; then Wait again
//	text := m.Console()                             // what the machine printed, from the start
//
// Inside runs a guest (package guest, built by BuildGuest for the machine's system), which
// answers on a line of its own: a virtio-serial port named PortName if Config.Line is Virtio,
// the second serial port if it is Serial (0x2F8, for kernels without virtio-serial: /dev/ttyS1,
// FreeBSD's /dev/cuau1). As process 1 of Linux it mounts and loads what a Debian root needs,
// see Debian. On other systems process 1 starts it.
//
// A kernel that is a multiboot ELF file (Config.Multiboot, FreeBSD's loader stub) takes Initrd
// as its modules. A Cable joins two machines, a stream of frames on a unix socket in a folder:
// the machine that is started first listens, and must be passed to Start first. Disks are read
// from files that are never written (snapshot=on); a machine's writes last until Close, across
// resets.
//
// Machines die with the process that started them (PR_SET_PDEATHSIG), with Close and with the
// context of Start. Missing names what is not installed, for a skip message.
package machine
