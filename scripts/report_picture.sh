#!/usr/bin/env bash
# The picture of a report: report_picture.sh FOLDER PNG [WIDTH HEIGHT [light|dark]], where FOLDER is what `patchbay run` left.
# docs/images/report.png is that of the quick start, results/quickstart, 1320 x 1500, light.
# Needs chromium (apt-get install chromium).
set -euo pipefail

folder=${1:?which results folder?} picture=$(realpath "${2:?which PNG?}") width=${3:-1240} height=${4:-1000} colours=${5:-light}
[[ -f $folder/report.html ]] || { echo "report_picture: $folder has no report.html: patchbay report $folder --html $folder/report.html" >&2; exit 1; }
case $colours in
  light) scheme=1 ;;
  dark) scheme=0 ;;
  *) echo "report_picture: colours are light or dark, not '$colours'" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Chromium's window is at least 500 wide: the page stands in a frame of the width asked for.
cat >"$work/frame.html" <<END
<!DOCTYPE html><meta name="color-scheme" content="light dark"><body style="margin:0"><iframe src="file://$(realpath "$folder")/report.html"
  style="display:block;border:0;width:${width}px;height:${height}px"></iframe>
END
sandbox=()
((EUID != 0)) || sandbox=(--no-sandbox)
chromium --headless=new "${sandbox[@]}" --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" --blink-settings=preferredColorScheme="$scheme" \
  --window-size="$width,$height" --screenshot="$picture" "file://$work/frame.html" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
echo "report_picture: $picture, $(stat -c %s "$picture") bytes"
