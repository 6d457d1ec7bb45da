"""``twofold demo`` from fit to page, without a checkout."""

from typer.testing import CliRunner

from twofold.cli.app import app


def test_the_demo_writes_a_page(tmp_path):
    folder = tmp_path / "made" / "demo"
    result = CliRunner().invoke(app, ["demo", "--smoke", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    page = (folder / "index.html").read_text()
    assert page.count("<svg") == 3 and "src=" not in page
    assert "http://" not in page and "https://" not in page
    assert "Measure here next" in result.output and "index.html" in result.output


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_fit(tmp_path):
    (tmp_path / "demo").touch()
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert "--out must be a folder" in str(result.exception)
